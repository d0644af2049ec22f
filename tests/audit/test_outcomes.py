"""Bounds on a loss by counts of outcomes, and what they cost in false alarms."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.audit import FALSE_ALARM
from rapt.audit.cases import Case, points, subject
from rapt.audit.outcomes import allowed, black_box_excess, counts, events, loss_bound, losses_shown
from rapt.privacy.mechanisms import T2T, mechanism
from rapt.privacy.streams import stream


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


@pytest.mark.parametrize("outputs", [2, 20])
def test_many_events_cost_no_false_alarms(outputs: int) -> None:
    """Equal laws, so a loss of 0, and every event at the whole level would fail too often."""
    rng, level, audits = np.random.default_rng(0), 0.3, 400
    masks = events(outputs)
    alarms = 0
    for _ in range(audits):
        one, other = rng.multinomial(2000, np.full(outputs, 1 / outputs), 2)
        alarms += losses_shown(masks, one, other, level).max() > 0
    assert binomtest(alarms, audits, level, "greater").pvalue > FALSE_ALARM


def test_events_are_single_outputs_and_ends_of_the_line() -> None:
    assert events(3).astype(int).tolist() == [
        *([1, 0, 0], [0, 1, 0], [0, 0, 1]),
        *([1, 0, 0], [1, 1, 0]),
        *([0, 1, 1], [0, 0, 1]),
    ]


@pytest.mark.parametrize("name", ["t2t", "santext", "token-representation"])
def test_the_line_spends_what_is_allowed(name: str) -> None:
    """Of an exponential mechanism nearly; with less an excess would stay within the bound."""
    case = subject(mechanism(name), [], 20_000).cases[0]
    one, other = (counts(case, word, partial(stream, 0)) for word in case.pairs[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(events(len(one)) @ one / (events(len(one)) @ other))
    bound, claim = allowed(case, *case.pairs[0])
    assert bound == claim == pytest.approx(2, rel=1e-5)
    every = np.abs(losses[np.isfinite(losses)])
    assert 0.85 * bound < every[every < 1.1 * bound].max()


def test_draws_are_those_of_a_release_and_a_seed_repeats_them() -> None:
    case = Case(T2T(), 4.0, points(8), [("w0", "w1")], 1000)
    seeded = [counts(case, "w0", partial(stream, seed)) for seed in (1, 1, 2)]
    assert (seeded[0] == seeded[1]).all()
    assert (seeded[0] != seeded[2]).any()
    assert seeded[0].sum() == 1000


def test_an_excess_is_detected_as_often_as_stated() -> None:
    """By the loss alone, at 1.02 times the stated excess, by 200 audits of known laws."""
    level, case = 1e-8, subject(T2T(), [], 20_000).cases[0]
    excess = black_box_excess(case, partial(stream, 0), level, level)
    assert excess and 1.05 < excess < 1.3
    loss = 1.02 * excess * 2.0
    rng = np.random.default_rng(0)
    # Of the noise of the second word, half falls beyond it.
    one, other = (
        np.stack([n - hits, hits], axis=1)
        for n, hits in (
            (case.draws, rng.binomial(case.draws, p, 200)) for p in (0.5, np.exp(-loss) / 2)
        )
    )
    share = level / len(events(len(case.table.words)))
    beyond = events(2)[1:2]
    shown = [losses_shown(beyond, *pair, share) > 2.0 for pair in zip(one, other, strict=True)]
    assert binomtest(int(np.sum(shown)), 200, 0.99, "less").pvalue > FALSE_ALARM
