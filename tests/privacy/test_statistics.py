import numpy as np
from scipy.stats import binom

from rapt.privacy.statistics import replay_test


def test_replay_test_accepts_the_same_mechanism() -> None:
    """200 tests at a false-alarm rate of 1e-6 each: fails by chance with p < 2e-4."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = rng.random(500)
        released, replayed = (list(map(bool, rng.random(500) < p)) for _ in range(2))
        assert replay_test(released, replayed).passed


def test_replay_test_catches_a_release_with_less_noise() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(3000)
    released = list(map(bool, rng.random(3000) < 0.8 * p))
    replayed = list(map(bool, rng.random(3000) < p))
    result = replay_test(released, replayed)
    assert not result.passed
    assert result.replaced < result.low <= result.expected


def test_replay_test_false_alarm_rate_is_exact() -> None:
    result = replay_test([True] * 50 + [False] * 50, [False] * 50 + [True] * 50)
    outside = 2 * binom.cdf(result.low - 1, 100, 0.5)
    assert outside <= 1e-6 < 2 * binom.cdf(result.low, 100, 0.5)


def test_no_doubt_where_nothing_differs() -> None:
    assert replay_test([True, False], [True, False]).passed
    assert replay_test([], []).passed
