from functools import partial

import numpy as np
import pytest

from rapt.errors import RaptError
from rapt.privacy.mechanisms.vectors import SequenceRepresentation, TokenRepresentation
from rapt.privacy.privatizer import Words
from rapt.privacy.representer import Representer
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable

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


@pytest.mark.parametrize("eta", [0.0, float("nan"), float("inf")])
def test_eta_is_a_number_above_zero(table: EmbeddingTable, eta: float) -> None:
    with pytest.raises(RaptError, match="allowed: a number above 0"):
        Representer(table=table, mechanism=TokenRepresentation(), eta=eta)
