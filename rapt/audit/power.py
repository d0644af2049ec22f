"""The power of a test: the smallest excess of η that it detects."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

POWER = 0.99
REPEATS = 6.64  # expected, so that there are two or more with probability POWER
MOST = 16.0  # times η, the greatest excess that is looked for
STEP = 1.002  # the precision


def smallest_excess(detects: Callable[[float], bool]) -> float | None:
    """The least factor f for which an implementation that spends f·η is detected.

    Args:
        detects: whether a factor is, with probability POWER; the more, the greater it is.

    Returns:
        The factor, rounded up to a step; None: MOST is not detected.
    """
    least, most = 1.0, MOST
    if not detects(most):
        return None
    while most > least * STEP:
        between = sqrt(least * most)
        least, most = (least, between) if detects(between) else (between, most)
    return most
