"""Forward and backward over chains whose exact marginals are found by enumeration."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from rapt.attacks.bigrams import Bigrams

PRIOR = np.array([0.5, 0.3, 0.2])
S = len(PRIOR) + 2
UNKNOWN, EDGE = 3, 4
TEXTS = [[0, 1, 0], [1, 0], [-1, 0, 1, 1]]


def law(bigrams: Bigrams) -> np.ndarray:
    return bigrams.pairs.toarray() + np.outer(bigrams.backoff, bigrams.single)


def test_witten_and_bell_by_hand() -> None:
    bigrams = Bigrams.of(map(np.array, TEXTS), PRIOR)
    assert law(bigrams).sum(axis=1) == pytest.approx(1)
    # Twelve words and ends of four kinds; 0 stands four times and is followed by three kinds.
    full = np.array([0.5, 0.3, 0.2, 1 / 3, 1 / 3]) / (5 / 3)
    single = (np.array([4, 4, 0, 1, 3]) + 4 * full) / (12 + 4)
    assert bigrams.single == pytest.approx(single)
    assert law(bigrams)[0] == pytest.approx((np.array([0, 2, 0, 0, 2]) + 2 * single) / (4 + 2))
    assert law(bigrams)[2] == pytest.approx(single)  # it stands nowhere


@pytest.mark.parametrize("texts", [[], TEXTS], ids=["none", "some"])
@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_marginals_are_those_of_all_sequences(texts: list[list[int]], length: int) -> None:
    bigrams = Bigrams.of(map(np.array, texts), PRIOR)
    emissions = list(np.random.default_rng(length).random((length, S)))
    exact, chances = np.zeros((length, S)), law(bigrams)
    for states in product(range(S), repeat=length):
        chain = [EDGE, *states, EDGE]
        chance = np.prod([chances[w, v] for w, v in pairwise(chain)])
        chance *= np.prod([emission[v] for emission, v in zip(emissions, states, strict=True)])
        exact[range(length), states] += chance
    exact /= exact.sum(axis=1, keepdims=True)
    assert bigrams.marginals(emissions) == pytest.approx(exact)
    if not texts:  # no word tells of another
        alone = np.array(emissions).reshape(length, S) * bigrams.single
        assert exact == pytest.approx(alone / alone.sum(axis=1, keepdims=True))
