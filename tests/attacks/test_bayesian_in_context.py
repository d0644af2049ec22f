"""A Markov chain behind a channel, where the best success is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from rapt.attacks.base import Public, Release
from rapt.attacks.bayesian import Bayesian, ContextualBayesian
from rapt.privacy.privatizer import Words
from tests.attacks.test_bayesian import CHANNELS, FALSE_ALARM, NONE, Shares
from tests.attacks.test_bayesian import public as public


@pytest.mark.parametrize("copies", [1, 2])
def test_in_context_it_reaches_the_best_success_that_there_is(
    public: Callable[[Shares], Public], copies: int
) -> None:
    """Texts of three words of a Markov chain; at each place Σ_y max_w P(w, y), tested exactly."""
    rng, n, matrix = np.random.default_rng(0), 3000, np.array(CHANNELS["two words"])
    start, follow = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.3, 0.7]])

    def texts(n: int) -> NDArray[np.int64]:
        found = rng.choice(2, (n, 3), p=start)
        for at in (1, 2):
            found[:, at] = rng.random(n) < follow[found[:, at - 1], 1]
        return found

    known = public(matrix)
    names = np.array(known.table.words)
    known = replace(known, texts=[Words(names[text].tolist(), [0] * 3) for text in texts(5000)])
    truth = texts(n)
    seen = [np.where(rng.random((n, 3)) < matrix[truth, 1], 1, 0) for _ in range(copies)]
    how = ContextualBayesian(type="bayesian-in-context", copies=copies, public_text=["any"])
    guessed = how.fit(known, NONE, 0).words([Release(names[copy].tolist()) for copy in seen])
    right = (np.array(guessed) == names[truth]).sum(axis=0)
    best = np.zeros(3)
    sequences = np.array(list(product((0, 1), repeat=3)))
    chances = start[sequences[:, 0]] * follow[sequences[:, :-1], sequences[:, 1:]].prod(axis=1)
    for released in product(sequences, repeat=copies):
        joint = chances * np.prod(
            [matrix[sequences, copy].prod(axis=1) for copy in released], axis=0
        )
        best += [max(joint[sequences[:, at] == w].sum() for w in (0, 1)) for at in range(3)]
    for at in range(3):
        assert binomtest(int(right[at]), n, best[at]).pvalue > FALSE_ALARM
    assert not how.upper_bounds(known, {})


def test_without_public_text_context_tells_nothing(public: Callable[[Shares], Public]) -> None:
    known = public(np.array(CHANNELS["turned"]))
    release = [Release([["nouna", "the", "nounb", "The", "unseen"], ["nounb"]])]
    alone, blind = (
        how.fit(known, NONE, 0).words(release)
        for how in (
            Bayesian(type="bayesian"),
            ContextualBayesian(type="bayesian-in-context", public_text=["any"]),
        )
    )
    assert alone == blind
