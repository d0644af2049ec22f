"""Averaging where its success is known, and where there is nothing to average."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from rapt.attacks.base import Public, Release
from rapt.attacks.inversion import Averaging
from rapt.audit.cases import small_table
from rapt.text.table import EmbeddingTable
from tests.attacks.test_bayesian import CHANNELS, FALSE_ALARM, NONE, Shares, draw
from tests.attacks.test_bayesian import public as public


def known_of(table: EmbeddingTable) -> Public:
    return Public(table, np.zeros(len(table.words), np.int64), None)


@pytest.mark.parametrize("name", CHANNELS)
def test_of_three_released_words_it_takes_the_one_that_two_agree_on(
    public: Callable[[Shares], Public], name: str
) -> None:
    """The mean of three is nearest to it: Σ_w π(w)·P(w stays at least twice), tested exactly."""
    rng, n = np.random.default_rng(0), 4000
    prior, matrix = np.array([2 / 3, 1 / 3]), np.array(CHANNELS[name])
    known = public(matrix)
    words = [known.table.words[w] for w in rng.choice(2, n, p=prior)]
    invert = Averaging(type="averaging", copies=3).fit(known, NONE, 0)
    guessed = invert.words([Release(draw(words, known, rng)) for _ in range(3)])
    right = sum(text == [word] for text, word in zip(guessed, words, strict=True))
    assert binomtest(right, n, prior @ binom.sf(1, 3, matrix.diagonal())).pvalue > FALSE_ALARM


@pytest.mark.parametrize("copies", [2, 4, 9])
def test_of_two_words_it_recovers_what_the_mean_of_k_noises_allows(copies: int) -> None:
    """Words 2 apart, Gaussian noise of deviation 2: right with Φ(√k / 2), tested exactly."""
    table = small_table(["left", "right"], np.array([[-1.0, 0.0], [1.0, 0.0]]), np.ones(2))
    rng, n = np.random.default_rng(0), 4000
    truth = rng.integers(0, 2, n)
    releases = []
    for _ in range(copies):
        vectors = (table.vectors[truth] + rng.normal(0, 2, (n, 2))).astype(np.float32)
        nearest = [[table.words[int(x > 0)]] for x in vectors[:, 0]]
        releases.append(Release(nearest, vectors))
    how = Averaging(type="averaging", copies=copies)
    guessed = how.fit(known_of(table), NONE, 0).words(releases)
    right = sum(text == [table.words[w]] for text, w in zip(guessed, truth, strict=True))
    assert binomtest(right, n, float(norm.cdf(np.sqrt(copies) / 2))).pvalue > FALSE_ALARM
    assert (how.takes, how.given) == (copies, f"{copies} releases")


def test_words_are_averaged_by_their_vectors_and_kept_where_all_agree(
    table: EmbeddingTable,
) -> None:
    first, second = [["nouna", "unseen"], ["verba"]], [["nounb", "unseen"], ["verba"]]
    guessed = Averaging(type="averaging", copies=2).fit(known_of(table), NONE, 0)
    mean = table.vectors[:2].mean(axis=0)
    nearest = table.words[int(((table.vectors - mean) ** 2).sum(axis=1).argmin())]
    assert guessed.words([Release(first), Release(second)]) == [[nearest, "unseen"], ["verba"]]
