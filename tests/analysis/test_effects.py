"""Effects whose truth is known, and Holm's correction by hand."""

import numpy as np
import pytest
from scipy.stats import binomtest, t

from rapt.analysis.effects import (
    FALSE_ALARMS,
    Effect,
    holm,
    jointly,
    over_seeds,
    over_texts,
    pooled,
)


def test_the_interval_over_seeds_is_students() -> None:
    effect = over_seeds([0.05, 0.06, 0.05])
    reach = t.ppf(0.975, 2) * np.std([5, 6, 5], ddof=1) / 100 / np.sqrt(3)
    assert effect.interval() == pytest.approx((0.16 / 3 - reach, 0.16 / 3 + reach))
    statistic = (0.16 / 3 - 0.04) / (reach / t.ppf(0.975, 2))
    assert effect.above(0.04) == pytest.approx(t.sf(statistic, 2))
    assert effect.above(0.07) == pytest.approx(1 - effect.below(0.07))
    assert effect.below(0.07) < 0.5 < effect.above(0.07)


def test_two_seeds_alone_say_nothing() -> None:
    effect = over_seeds([0.5, 0.6])
    assert (effect.mean, effect.interval()) == (0.55, None)
    assert effect.above(0) == effect.below(1) == 1


@pytest.mark.parametrize("tail", [0.025, 0.001])
def test_a_p_value_is_that_of_the_interval_that_touches_the_bound(tail: float) -> None:
    effect = Effect(0.3, [(0.01, 7), (0.02, 2)])
    low, high = effect.interval(1 - 2 * tail) or (0, 0)
    assert effect.above(low) == pytest.approx(tail)
    assert effect.below(high) == pytest.approx(tail)


def test_what_does_not_vary_is_sure() -> None:
    effect = over_seeds([0.5, 0.5, 0.5])
    assert (effect.above(0.4), effect.above(0.6), effect.interval()) == (0, 1, (0.5, 0.5))


@pytest.mark.parametrize("sd", [0.0, 0.03, 0.1])
@pytest.mark.parametrize(("settings", "seeds"), [(1, 2), (3, 2), (3, 3)])
def test_few_seeds_never_cover_less_than_stated(sd: float, settings: int, seeds: int) -> None:
    """At 99 %, as deep as Holm's correction asks: 1,000 samples of 100 texts, at 1e-6.

    The seeds vary not at all, about as much as the texts, and more.
    """
    rng, missed = np.random.default_rng(0), 0
    for _ in range(1000):
        chance = rng.uniform(0.4, 0.6, 100) + rng.normal(0, sd, (2, settings, seeds, 1))
        right = (rng.random((2, settings, seeds, 100)) < chance).astype(np.float64)
        low, high = over_texts([right[0] - right[1]]).interval(0.99) or (0, 0)
        missed += not low <= 0 <= high
    assert binomtest(missed, 1000, 0.01, alternative="greater").pvalue > 1e-6


def test_settings_of_one_task_share_its_texts() -> None:
    """More of them make the texts no more; further tasks do, and weigh by their settings."""
    over = np.random.default_rng(0).integers(-1, 2, (1, 1, 500)).astype(np.float64)
    (alone,) = over_texts([over]).parts
    assert alone == pytest.approx((over.var(ddof=1) / 500, 499))
    assert over_texts([np.repeat(over, 3, axis=0)]).parts[0] == pytest.approx(alone)
    both = over_texts([np.repeat(over, 3, axis=0), over[:, :, :100]])
    assert both.mean == pytest.approx((3 * over.mean() + over[:, :, :100].mean()) / 4)
    assert both.parts[0] == pytest.approx(((3 / 4) ** 2 * alone[0], 499))


def test_the_seeds_of_all_settings_are_pooled() -> None:
    accuracy = np.array([[0.1, 0.3], [0.4, 0.4]])
    over = np.stack([accuracy, accuracy], axis=2)
    _, (variance, free) = over_texts([over]).parts
    assert (variance, free) == (pytest.approx(0.02 / 2 / (2 * 2)), 2)


def test_seeds_may_be_pooled_with_those_of_other_settings() -> None:
    rng = np.random.default_rng(0)
    settings = [rng.random((seeds, 9)) for seeds in (3, 5, 1)]
    each = [own.mean(axis=1).var(ddof=1) for own in settings[:2]]
    assert pooled(settings) == (pytest.approx((2 * each[0] + 4 * each[1]) / 6), 6)
    assert pooled(settings[2:]) is None
    effect = over_texts([settings[0][None]], (0.5, 6))
    assert effect.parts[1:] == [(0.5 / 3, 6)]


def test_one_seed_is_covered_by_its_texts_alone() -> None:
    assert len(over_texts([np.ones((4, 1, 10))]).parts) == 1


def test_sides_that_agree_on_every_text_may_differ_on_the_next() -> None:
    """By about two texts in as many as there are."""
    low, high = over_texts([np.zeros((2, 3, 1000))]).interval() or (0, 0)
    assert -low == high == pytest.approx(0.002, rel=0.05)


def test_holm_multiplies_by_the_hypotheses_that_are_left() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1, 1])
    assert holm([]).shape == (0,)


def test_a_joint_interval_leaves_out_0_exactly_where_the_test_is_sure() -> None:
    """A row is not `undecided` beside an interval on one side of 0, as -14.1 to -1.6 was."""
    rng = np.random.default_rng(1)
    beside = 0
    for _ in range(200):
        effects = [Effect(float(m), [(1e-3, 99)]) for m in rng.normal(0, 0.08, 6)]
        for effect, (interval, p) in zip(effects, jointly(effects), strict=True):
            assert interval
            assert (interval[0] > 0 or interval[1] < 0) == (p <= FALSE_ALARMS)
            low, high = effect.interval() or (0, 0)
            assert interval[0] <= low and interval[1] >= high
            beside += (low > 0 or high < 0) and p > FALSE_ALARMS
    assert beside > 20
    assert jointly([Effect(0.1, [])]) == [(None, 1.0)]
