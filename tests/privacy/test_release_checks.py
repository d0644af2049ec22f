import numpy as np
import pytest
from scipy.stats import binom

from rapt.privacy import release_checks
from rapt.privacy.release_checks import _sample, replay_test


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_checks, "REPLAYED", 100)


def sample(words: list[int], seed: int = 0) -> list[int]:
    return _sample(words, np.random.default_rng(seed))


def test_a_sample_has_as_many_words_as_are_replayed() -> None:
    rows = sample([7] * 50)
    assert len(set(rows)) == 14
    assert rows == sample([7] * 50) == sorted(rows)
    assert rows != sample([7] * 50, seed=1)


def test_every_text_is_drawn_as_often() -> None:
    drawn = np.concatenate([sample([10] * 20, seed) for seed in range(400)])
    counts = np.bincount(drawn, minlength=20)
    assert counts.sum() == 4000
    assert counts.min() > 140
    assert counts.max() < 260


def test_few_words_are_all_replayed_and_a_long_text_alone() -> None:
    assert sample([5, 0, 3]) == [0, 1, 2]
    assert len(sample([1000, 1000])) == 1
    assert sample([]) == []


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
