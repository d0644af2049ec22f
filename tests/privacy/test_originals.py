import numpy as np
import pytest

from rapt.privacy import originals
from rapt.privacy.originals import _sample


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "REPLAYED", 100)


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
