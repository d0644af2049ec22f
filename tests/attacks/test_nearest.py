"""The nearest neighbour on channels whose success is known in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.base import Public, Release
from rapt.attacks.inversion import NearestNeighbour
from rapt.attacks.victims import Victims
from tests.attacks.test_bayesian import CHANNELS, FALSE_ALARM, NONE, Shares, draw
from tests.attacks.test_bayesian import public as public


@pytest.mark.parametrize("name", CHANNELS)
def test_it_recovers_the_words_that_stay(public: Callable[[Shares], Public], name: str) -> None:
    """Σ_w π(w)·P(w|w), tested exactly."""
    rng, n = np.random.default_rng(0), 4000
    prior, matrix = np.array([2 / 3, 1 / 3]), np.array(CHANNELS[name])
    known = public(matrix)
    words = [known.table.words[w] for w in rng.choice(2, n, p=prior)]
    victims = Victims([[w] for w in words], [[0]] * n, known.table.form)
    attack = NearestNeighbour(type="nearest-neighbour").fit(known, NONE, 0)
    right = int(
        victims.score(attack.words([Release(draw(words, known, rng))])).ratios["accuracy"][0].sum()
    )
    assert binomtest(right, n, prior @ matrix.diagonal()).pvalue > FALSE_ALARM
