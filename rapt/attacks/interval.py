"""How sure a share over texts and seeds is, and an AUC."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

CONFIDENCE = 0.95


def interval(
    right: NDArray[np.int64], counted: NDArray[np.int64], seeds: NDArray[np.float64]
) -> tuple[float, float]:
    """A 95 % confidence interval of a share, as if texts and seeds had been drawn anew.

    The words of a text belong together, and so do a text's copies of different seeds: what varies
    is the text. What all texts of a seed have in common (an attacker's training) varies with the
    seed, beside them: of two seeds little is known of it, which Student's t with Welch's degrees of
    freedom (Satterthwaite, 1946) says. Of one seed nothing is, and it is not in the interval.

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
    free = max(1, texts - 1)
    parts = [((residuals**2).sum() / total**2 * texts / free, free)]
    return _student(share, parts, seeds, int((counted > 0).sum()))


def auc_interval(members: NDArray[np.float64], others: NDArray[np.float64]) -> tuple[float, float]:
    """A 95 % confidence interval of an area under the ROC curve, likewise.

    The variance over texts is that of DeLong et al. (1988): an AUC is the mean of what each text
    contributes, of the members and of the others alike.

    Args:
        members: for each seed and member the share of the others that it scores above, (k, m).
        others: for each seed and other the share of the members that score above it, (k, n).
    """
    sizes = [placed.shape[1] for placed in (members, others)]
    if min(sizes) < 2:
        return 0.0, 1.0
    parts = [
        (placed.mean(0).var(ddof=1) / size, size - 1)
        for placed, size in zip((members, others), sizes, strict=True)
    ]
    return _student(members.mean(), parts, members.mean(1), min(sizes))


def _student(
    share: float, parts: Sequence[tuple[float, int]], seeds: NDArray[np.float64], texts: int
) -> tuple[float, float]:
    """The interval around a share, from parts of its variance with their degrees of freedom.

    None or all of some texts has no variance, and yet another text might be the first that is
    otherwise: its bound is that of Clopper and Pearson (1934).
    """
    if len(seeds) > 1:
        parts = [*parts, (seeds.var(ddof=1) / len(seeds), len(seeds) - 1)]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        beyond = float(((1 - CONFIDENCE) / 2) ** (1 / texts))
        return beyond if share == 1 else float(share), 1 - beyond if share == 0 else float(share)
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    reach = float(t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(variance))
    return max(0.0, float(share) - reach), min(1.0, float(share) + reach)
