"""Figures of how near synthetic texts come to private ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from rapt import paths
from rapt.synthesis.judged import copied, distance, judge


def test_a_copy_is_a_run_of_words_whatever_their_case() -> None:
    known = [["a", "b", "c", "d"], ["x", "y"]]
    texts = [["z", "B", "c", "D"], ["a", "b", "d", "c"], ["x", "y"], []]
    assert copied(texts, known, run=3) == 0.25
    assert copied(texts, known, run=2) == 0.75
    assert copied(known, known, run=3) == 0.5


def test_the_distance_is_frechet_s() -> None:
    one = np.array([[-1.0], [1.0]])
    assert distance(one, one) == pytest.approx(0)
    assert distance(one, one + 3) == pytest.approx(9)  # means 3 apart
    assert distance(one, 3 * one) == pytest.approx(4)  # deviations 1 and 3
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(70, 4)) @ rng.normal(size=(4, 4)) + 1
    of_x, of_y = (np.cov(z, rowvar=False, bias=True) for z in (x, y))
    gap = ((x.mean(0) - y.mean(0)) ** 2).sum()
    expected = gap + np.trace(of_x + of_y - 2 * sqrtm(of_x @ of_y).real)
    assert distance(x, y) == pytest.approx(expected)


def test_the_same_figures_of_the_test_texts_stand_beside() -> None:
    train = [["a", "fine", "film", "with", "a", "very", "good", "plot", str(n)] for n in range(4)]
    test = [["bad", "plot"], ["worse", "plot"], ["no", "plot", "at", "all"]]
    found = judge([*train[:2], train[0]], train, test, paths.MINILM)
    assert found["copied"] == 1.0
    assert found["copied_by_test"] == 0.0
    assert found["repeated"] == pytest.approx(1 / 3)
    assert found["distance"] > 0
    assert found["distance_of_train"] > 0
