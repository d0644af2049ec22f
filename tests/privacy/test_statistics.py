import numpy as np
from scipy.stats import binom

from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.statistics import replacement, replay_test
from rapt.text.table import EmbeddingTable


def test_replacement_falls_with_eta_between_the_known_ends(table: EmbeddingTable) -> None:
    shares = [
        replacement(Privatizer(table=table, mechanism=T2T(), eta=eta), 18, 100, 0)
        for eta in (1e-3, 2, 5, 1e6)
    ]
    replaced = [s.replaced for s in shares]
    assert replaced == sorted(replaced, reverse=True)
    assert replaced[-1] == 0
    assert shares[-1].n_w == 100
    assert shares[-1].s_w == 1
    # Next to no signal: a word survives only by chance, and nearly every word can come out.
    assert replaced[0] > 0.8
    assert shares[0].s_w > 8
    assert all(s.replaced_low <= s.replaced <= s.replaced_high for s in shares)


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
