from functools import partial

import numpy as np
import pytest

from rapt.privacy.mechanisms import T2T
from rapt.privacy.mechanisms.vectors import SequenceRepresentation, TokenRepresentation
from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.representer import Representer
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError

TEXTS = [["nouna", "unknown", "the"], [], ["verbb"]]


def texts() -> list[Words]:
    return [Words(words, [0] * len(words), partial(stream, 0, i)) for i, words in enumerate(TEXTS)]


def test_a_noisy_vector_for_each_word_known_or_not(table: EmbeddingTable) -> None:
    made = TokenRepresentation(grid=2.0**-16)
    released = list(Representer(table=table, mechanism=made, eta=1e6).release(texts()))
    assert [vectors.shape for vectors in released] == [(3, 8), (0, 8), (1, 8)]
    np.testing.assert_allclose(released[0], table.embed(TEXTS[0]), atol=1e-4)
    noisy = list(Representer(table=table, mechanism=made, eta=1.0).release(texts()))
    assert np.linalg.norm(noisy[0] - released[0], axis=1).min() > 1


def test_one_noisy_vector_for_a_text(table: EmbeddingTable) -> None:
    made = SequenceRepresentation(grid=2.0**-16)
    released = list(Representer(table=table, mechanism=made, eta=1e6).release(texts()))
    assert [vectors.shape for vectors in released] == [(1, 8), (0, 8), (1, 8)]
    np.testing.assert_allclose(released[0][0], table.embed(TEXTS[0]).mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("eta", [0.0, float("nan")])
def test_eta_is_above_zero(table: EmbeddingTable, eta: float) -> None:
    with pytest.raises(RaptError, match=r"^eta: got .*, expected a number above 0"):
        Representer(table=table, mechanism=TokenRepresentation(), eta=eta)


def test_without_noise_vectors_are_the_words_own_on_the_grid(table: EmbeddingTable) -> None:
    made = TokenRepresentation(grid=2.0**-10)
    released = list(Representer(table=table, mechanism=made, eta=np.inf).release(texts()))
    np.testing.assert_array_equal(released[0], np.round(table.embed(TEXTS[0]) * 1024) / 1024)


def test_words_are_the_nearest_to_the_vectors_and_on_a_fine_grid_those_of_t2t(
    table: EmbeddingTable,
) -> None:
    """One text takes one noise, whichever of them it is released by."""
    rng = np.random.default_rng(0)
    given = [
        Words(list(rng.choice(table.words, 50)), [0] * 50, partial(stream, 0, i)) for i in range(20)
    ]
    for grid in (2.0**-30, 2.0**0):
        made = TokenRepresentation(grid=grid)
        words = list(Privatizer(table=table, mechanism=made, eta=2.0).privatize(given))
        for vectors, text in zip(
            Representer(table=table, mechanism=made, eta=2.0).release(given), words, strict=True
        ):
            apart = np.linalg.norm(vectors[:, None] - table.vectors, axis=2)
            assert [table.words[row] for row in apart.argmin(axis=1)] == text
        t2t = list(Privatizer(table=table, mechanism=T2T(), eta=2.0).privatize(given))
        assert (words == t2t) == (grid < 1)
