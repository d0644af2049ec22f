"""Figures of how near synthetic texts come to private ones."""

import numpy as np
import pytest

from rapt import paths
from rapt.synthesis import judged
from rapt.synthesis.judged import copied, distance, judge


def test_a_copy_is_a_run_of_words_whatever_their_case() -> None:
    known = [["a", "b", "c", "d"], ["x", "y"]]
    texts = [["z", "B", "c", "D"], ["a", "b", "d", "c"], ["x", "y"], []]
    assert copied(texts, known, run=3) == 0.25
    assert copied(texts, known, run=2) == 0.75
    assert copied(known, known, run=3) == 0.5


def test_the_energy_distance_by_hand() -> None:
    """Pairs are 6 apart on average, and 2 and 4 within each sample."""
    one, other = np.array([[0.0], [2.0]]), np.array([[5.0], [9.0]])
    assert distance(one, other) == distance(other, one) == pytest.approx(6)


def test_the_energy_distance_of_many_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(30, 4)), rng.normal(0.5, size=(25, 4))
    whole = distance(one, other)
    monkeypatch.setattr(judged, "ROWS", 7)
    assert distance(one, other) == pytest.approx(whole)


def test_samples_of_one_law_have_no_distance_however_small_they_are() -> None:
    """The mean of 400 is 0 within five deviations; texts that are too alike are further off."""
    rng = np.random.default_rng(0)
    found = [distance(rng.normal(size=(5, 9)), rng.normal(size=(20, 9))) for _ in range(400)]
    assert abs(np.mean(found)) < 5 * np.std(found) / 20
    alike = [distance(rng.normal(size=(5, 9)) / 3, rng.normal(size=(20, 9))) for _ in range(400)]
    assert np.mean(alike) > 0.5


def test_the_same_figures_of_the_test_texts_stand_beside() -> None:
    train = [["a", "fine", "film", "with", "a", "very", "good", "plot", str(n)] for n in range(4)]
    test = [["bad", "plot"], ["worse", "plot"], ["no", "plot", "at", "all"]]
    found = judge([*train[:2], train[0]], train, test, paths.MINILM)
    assert found["copied"] == 1.0
    assert found["copied_by_test"] == 0.0
    assert found["repeated"] == pytest.approx(1 / 3)
    assert min(found["distance"], found["distance_of_train"]) > 1  # of other words
