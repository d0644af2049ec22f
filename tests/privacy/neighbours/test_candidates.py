"""Distances of chosen pairs, and the nearest rows by all distances."""

import numpy as np
import pytest

from rapt.privacy.neighbours import candidates

VECTORS = np.array([[0, 0], [3, 4], [3, 4], [-1, 0]], np.float32)


def test_a_pairs_distance_is_the_same_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = np.random.default_rng(0).standard_normal((5, 2))
    which, rows = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
    together = candidates.distances(VECTORS, queries, which, rows)
    expected = np.square(VECTORS[rows] - queries[which]).sum(axis=1)
    np.testing.assert_allclose(together, expected)
    monkeypatch.setattr(candidates, "NUMBERS", 2)  # one pair at a time
    alone = candidates.distances(VECTORS, queries, which, rows)
    np.testing.assert_array_equal(together, alone)


def test_of_equal_rows_the_first_is_nearest() -> None:
    queries = np.array([[3.0, 4.0], [-1.0, 0.0]])
    found = candidates.nearest_of_all(VECTORS, queries, 3)
    np.testing.assert_array_equal(found, [[1, 2, 0], [3, 0, 1]])


def test_pairs_are_selected_by_mask_or_index() -> None:
    pairs = candidates.Pairs(np.array([0, 1]), np.array([2, 3]), np.array([4, 5], np.float32))
    assert pairs.where(np.array([False, True])).rows.tolist() == [3]
    assert pairs.where(np.array([1, 0])).queries.tolist() == [1, 0]
