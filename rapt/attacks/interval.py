"""How sure a share over texts and seeds is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NORMAL_95 = 1.96


def interval(
    right: NDArray[np.int64], counted: NDArray[np.int64], seeds: NDArray[np.float64]
) -> tuple[float, float]:
    """A 95 % confidence interval of a share, as if texts and seeds had been drawn anew.

    The words of a text belong together, and so do a text's copies of different seeds: what varies
    is the text. What all texts of a seed have in common (an attacker's training) varies with the
    seed, beside them.

    Args:
        right: of each text, over all seeds, int64 (n,).
        counted: likewise, those that could be right.
        seeds: the share of each seed, (k,).
    """
    total, texts = counted.sum(), len(counted)
    if total == 0:
        return 0.0, 1.0
    share = right.sum() / total
    residuals = right - share * counted
    variance = (residuals**2).sum() / total**2 * texts / max(1, texts - 1)
    if len(seeds) > 1:
        variance += seeds.var(ddof=1) / len(seeds)
    reach = NORMAL_95 * float(np.sqrt(variance))
    return max(0.0, float(share) - reach), min(1.0, float(share) + reach)
