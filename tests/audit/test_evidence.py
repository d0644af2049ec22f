"""Bounds on a loss by counts of outputs, and what they cost in false alarms."""

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.audit import FALSE_ALARM
from rapt.audit.evidence import View, best_evidence, loss_bound


def test_the_bound_on_a_loss_is_clopper_and_pearsons() -> None:
    for hits, others in ((0, 5), (5, 0), (7, 3), (100, 100), (60, 100)):
        low, high = (binomtest(k, 100).proportion_ci(1 - 0.01, "exact") for k in (hits, others))
        with np.errstate(divide="ignore"):
            expected = np.log(low.low) - np.log(high.high)
        assert loss_bound(hits, 100, others, 100, 0.01) == pytest.approx(expected)


def test_the_bound_covers_the_loss_of_a_known_channel() -> None:
    """At the rate it states, and not much more often: 20,000 audits of one event."""
    rng, level, n = np.random.default_rng(0), 0.1, 500
    p, q = 0.4, 0.1
    shown = loss_bound(rng.binomial(n, p, 20_000), n, rng.binomial(n, q, 20_000), n, level)
    wrong = (shown > np.log(p / q)).mean()
    assert 0.0005 < wrong < level
    assert shown.mean() > 0.7 * np.log(p / q)


@pytest.mark.parametrize("outputs", [2, 200])
def test_choosing_events_costs_no_false_alarms(outputs: int) -> None:
    """Equal laws, so a loss of 0; with events tested where they are chosen, nearly all fail."""
    rng, level, audits = np.random.default_rng(0), 0.3, 400
    alarms = 0
    for _ in range(audits):
        one, other = rng.integers(outputs, size=(2, 2000))
        alarms += best_evidence(View(one, other, str), 0.0, level).loss > 0
    assert binomtest(alarms, audits, level, "greater").pvalue > FALSE_ALARM


@pytest.mark.parametrize(("size", "bound"), [(1000, 0.3), (50, np.inf)])
def test_a_small_loss_spread_over_many_outputs_is_shown(size: int, bound: float) -> None:
    """No single output shows it: their union does, be it chosen by the bound or without one."""
    rng, n = np.random.default_rng(0), 40_000
    one = rng.integers(size, size=n)
    tilted = np.where(np.arange(size) < size / 2, 0.6, 1.4) / size
    other = rng.choice(size, n, p=tilted)
    found = best_evidence(View(one, other, lambda codes: str(len(codes))), bound, 1e-9)
    assert found.loss > 0.3
    assert int(found.event) > 0.3 * size
