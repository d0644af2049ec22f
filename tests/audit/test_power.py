"""The smallest excess that a test detects."""

import pytest

from rapt.audit.power import MOST, STEP, smallest_excess


@pytest.mark.parametrize("least", [1.0005, 1.15, 7.3])
def test_the_smallest_excess_is_found_to_a_step(least: float) -> None:
    found = smallest_excess(lambda factor: factor >= least)
    assert found
    assert least <= found <= least * STEP


def test_what_is_never_detected_has_no_smallest_excess() -> None:
    assert smallest_excess(lambda factor: factor > MOST) is None
