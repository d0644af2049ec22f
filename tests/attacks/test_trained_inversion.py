"""Inversions that learn: how much, from what, and what a mechanism leaks beside its channel."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.base import Pairs, Public, Release
from rapt.attacks.victims import Victims
from rapt.privacy.categories import VERBATIM
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.attacks.conftest import FALSE_ALARM, NONE, V, made, two_words
from tests.attacks.test_reconstructor import LENGTH, attack, random_texts, uniform

MLP = made("mlp-inversion")


@pytest.fixture
def known(table: EmbeddingTable) -> Public:
    return Public(table, np.full(len(table.words), VERBATIM), None)


def test_it_learns_from_as_many_words_as_it_is_given(known: Public) -> None:
    words = [["nouna"]] * 10 + [["nounb"]] * 90
    own = Pairs(words, Release(words))
    few = made("mlp-inversion", pairs=10)
    assert few.fit(known, own, 0).words([Release([["nouna", "nounb"]])]) == [["nouna", "nouna"]]


def test_it_reads_vectors_where_vectors_are_released(known: Public) -> None:
    """The released words are all the same: only the vectors distinguish originals."""
    rng = np.random.default_rng(0)
    words = [[str(word)] for word in rng.choice(["nouna", "nounb"], 2000)]
    centres = known.table.embed([text[0] for text in words])
    vectors = (centres + 0.05 * rng.standard_normal(centres.shape)).astype(np.float32)
    own, victims = (Release([["verba"]] * 1000, half) for half in np.split(vectors, 2))
    assert MLP.fit(known, Pairs(words[:1000], own), 0).words([victims]) == words[1000:]


@pytest.mark.parametrize(
    "matrix",
    [np.array([[0.8, 0.2], [0.4, 0.6]]), np.full((2, 2), 0.5)],
    ids=["two words", "uniform"],
)
def test_an_autoencoder_finds_the_mean_of_what_a_word_may_have_been(
    known: Public, matrix: np.ndarray
) -> None:
    """The least squared error is that of E[E(w)|y], which is known for each y."""
    inverter = made("autoencoder").fit(known, two_words(matrix, 0), 0)
    victims = two_words(matrix, 1)
    one, other = known.table.embed(["nouna", "nounb"])
    assert inverter.vectors
    spread = ((one - other) ** 2).mean()
    expected, error = [], 0.0
    for y, chance in enumerate(matrix.mean(axis=0)):
        posterior = matrix[:, y] / matrix[:, y].sum()
        expected.append(posterior[0] * one + posterior[1] * other)
        error += chance * posterior.prod() * spread
    found = inverter.vectors(known.table.embed(["nouna", "nounb"]))
    np.testing.assert_allclose(found, expected, atol=0.15 * np.sqrt(spread))
    scored = Victims(victims.words, [[0]] * 3000, known.table.form)
    errors = scored.squared_errors(inverter.vectors, victims.released, known.table)
    assert errors.mean() == pytest.approx(error, rel=0.15)


def test_it_notices_a_mechanism_that_keeps_every_tenth_word(
    table: EmbeddingTable, encoder: Path
) -> None:
    """The channel of single words does not tell: the leak is in the place.

    Without it 1/18 is recovered, as by whoever reads one word at a time.
    """
    known, victims = uniform(table, kept=10), random_texts(table, 200, 1)
    assert known.privatizer
    release = Release(list(known.privatizer.privatize(victims)))
    truth = np.array([text.words for text in victims])
    assert truth.shape == (200, LENGTH)
    single, trained = (
        np.array(how.fit(known, NONE, 0).words([release])) == truth
        for how in (
            made("bayesian", prior="public"),
            attack(encoder, words=40_000, learning_rate=0.005),
        )
    )
    tests = [("two-sided", single), ("greater", trained)]
    p = [binomtest(int(r.sum()), r.size, 1 / V, alternative=which).pvalue for which, r in tests]
    assert p[0] > FALSE_ALARM > p[1]
    assert trained[:, ::10].mean() > 0.9


def test_without_text_there_is_nothing_to_learn(table: EmbeddingTable, encoder: Path) -> None:
    known = uniform(table, 1)
    with pytest.raises(RaptError, match="public_text: got no protected word"):
        attack(encoder).fit(Public(table, known.groups, known.channel), NONE, 0)
