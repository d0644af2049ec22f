"""A language model beside the channel, where the best success is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.base import Public, Release
from tests.attacks.contexts import CONTEXT, MASKED, teach
from tests.attacks.contexts import alternating as alternating
from tests.attacks.test_bayesian import CHANNELS, FALSE_ALARM, NONE, Shares, draw
from tests.attacks.test_bayesian import public as public
from tests.tuning.conftest import backbone as backbone


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("identity", [[0.9, 0.1], [0.5, 0.5]]),
        ("uniform", [[0.5, 0.5], [0.5, 0.5]]),
        ("uniform", [[0.9, 0.1], [0.4, 0.6]]),
        ("two words", [[0.5, 0.5], [0.5, 0.5]]),
        ("two words", [[0.9, 0.1], [0.5, 0.5]]),
        ("turned", [[0.7, 0.3], [0.2, 0.8]]),
    ],
)
def test_they_reach_the_best_success_that_there_is(
    public: Callable[[Shares], Public],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    places: list[list[float]],
) -> None:
    """At each place of texts of two words with the chances π that the model knows, tested exactly.

    Σ_y max_w P(y|w)·π(w), and max_w π(w) for who does not look at y.
    """
    rng, n = np.random.default_rng(0), 2000
    matrix, chances = np.array(CHANNELS[name]), np.array(places)
    known = public(matrix)
    teach(monkeypatch, chances)
    truth = np.stack([rng.choice(known.table.words[:2], n, p=own) for own in chances], axis=1)
    released = np.reshape(draw(truth.ravel().tolist(), known, rng), truth.shape).tolist()
    seen = [(own[:, None] * matrix).max(axis=0).sum() for own in chances]
    for how, best in ((CONTEXT, seen), (MASKED, chances.max(axis=1))):
        guessed = np.array(how.fit(known, NONE, 0).words([Release(released)]))
        for right, share in zip((guessed == truth).sum(axis=0), best, strict=True):
            assert binomtest(right, n, min(1.0, share)).pvalue > FALSE_ALARM


def test_a_context_that_tells_all_recovers_all(alternating: Public) -> None:
    rng = np.random.default_rng(0)
    truth = [["nouna", "nounb"] * 3] * 200
    flipped = {"nouna": "nounb", "nounb": "nouna"}
    released = [[flipped[w] if rng.random() < 0.4 else w for w in text] for text in truth]
    for how in (CONTEXT, MASKED):
        assert how.fit(alternating, NONE, 0).words([Release(released)]) == truth


def test_a_model_that_counts_for_little_changes_nothing(alternating: Public) -> None:
    """P(nouna|y) is at least 0.4·0.67 / (0.4·0.67 + 0.6·0.33) = 0.57: nouna throughout."""
    how = CONTEXT.model_copy(update={"weight": 1e-9})
    guessed = how.fit(alternating, NONE, 0).words([Release([["nouna", "nounb"]])])
    assert guessed == [["nouna", "nouna"]]
