"""Shared by all mechanisms: a bound, a metric and the check of a parameter."""

from __future__ import annotations

import numpy as np
import pytest

from rapt.privacy.mechanisms import T2T, Space
from rapt.privacy.mechanisms.base import check, euclidean
from rapt.utils.errors import RaptError


def test_distances_are_euclidean_in_float64(plane: Space) -> None:
    one, other = np.array([[0, 0], [1, 1]], np.float32), np.array([[3, 4], [1, 1]], np.float32)
    found = euclidean(one, other)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [5, 0])
    np.testing.assert_array_equal(T2T().distance(plane, one, other), found)


def test_a_loss_is_at_most_eta_times_the_distance() -> None:
    assert T2T().bound(2.0, 3.0) == 6.0


def test_the_row_of_the_nearest_candidate(plane: Space) -> None:
    own = np.arange(len(plane.vectors))
    np.testing.assert_array_equal(plane.rows(plane.vectors.astype(np.float64)), own)


def test_a_parameter_out_of_bounds_is_one_line() -> None:
    check("weight", 0.5, "between 0 and 1", True)
    with pytest.raises(RaptError, match=r"^weight: got 2, expected between 0 and 1\.$"):
        check("weight", 2, "between 0 and 1", False)
