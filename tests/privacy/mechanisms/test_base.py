"""Shared by all mechanisms: their spaces and the check of a parameter."""

import numpy as np

from rapt.privacy.mechanisms import Space
from rapt.privacy.mechanisms.exponential import blocks


def test_the_row_of_the_nearest_candidate(plane: Space) -> None:
    own = np.arange(len(plane.vectors))
    np.testing.assert_array_equal(plane.rows(plane.vectors.astype(np.float64)), own)


def test_spaces_of_the_same_arrays_share_what_is_made_of_them(plane: Space) -> None:
    again, copied = (
        Space(vectors, plane.frequency) for vectors in (plane.vectors, plane.vectors.copy())
    )
    assert blocks(plane, 2) is blocks(again, 2)
    assert plane == again and plane != copied
    assert blocks(copied, 2) is not blocks(plane, 2)
