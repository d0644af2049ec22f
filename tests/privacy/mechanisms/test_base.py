"""Shared by all mechanisms: their spaces and the check of a parameter."""

from __future__ import annotations

import numpy as np
import pytest

from rapt.privacy.mechanisms import Space
from rapt.privacy.mechanisms.base import check
from rapt.utils.errors import RaptError


def test_the_row_of_the_nearest_candidate(plane: Space) -> None:
    own = np.arange(len(plane.vectors))
    np.testing.assert_array_equal(plane.rows(plane.vectors.astype(np.float64)), own)


def test_a_parameter_out_of_bounds_is_one_line() -> None:
    check("weight", 0.5, "between 0 and 1", True)
    with pytest.raises(RaptError, match=r"^weight: got 2, expected between 0 and 1\.$"):
        check("weight", 2, "between 0 and 1", False)
