"""How sure a share over texts and seeds is, a mean, and an AUC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom, t

CONFIDENCE = 0.95


def interval(
    right: NDArray[np.int64], counted: NDArray[np.int64], seeds: NDArray[np.float64]
) -> tuple[float, float]:
    """A 95 % confidence interval of a share, as if texts and seeds had been drawn anew.

    The unit that varies is the text, with all its words and its copies of all seeds. What the texts
    of a seed share, such as an attacker's training, varies with the seed. Both variances add up.
    Student's t with Welch's degrees of freedom (Satterthwaite, 1946) allows for the few seeds. One
    seed has no variance, so the interval then covers the texts alone.

    Args:
        right: of each text, over all seeds, int64 (n,).
        counted: likewise, those that could be right.
        seeds: the share of each seed, (k,).
    """
    texts = int((counted > 0).sum())
    if texts < 2:  # which tell nothing of how texts differ
        return 0.0, 1.0
    share = right.sum() / counted.sum()
    return _of_share(share, [_ratio(right, counted)], seeds, texts)


def of_accuracy(right: NDArray[np.bool_]) -> tuple[float, float]:
    """The interval of an accuracy.

    Args:
        right: whether each seed's model is right about each text, bool (k, n).
    """
    counted = np.full(right.shape[1], len(right))
    return interval(right.sum(axis=0), counted, right.mean(axis=1))


def difference(
    right: NDArray[Any], other: NDArray[Any], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the difference of two accuracies on the same texts, and its interval, likewise.

    Args:
        right: whether each seed's model is right about each of n > 1 texts, (k, n), or each text's
            part in a share (`rapt.results.predictions.Successes`).
        other: the same of what it is compared with, for as many seeds or for one.
        confidence: of the interval.
    """
    over = right.astype(np.float64) - other
    texts = over.shape[1]
    parts = [(float(over.mean(axis=0).var(ddof=1)) / texts, texts - 1)]
    mean, reach = float(over.mean()), _reach(parts, over.mean(axis=1), confidence)
    return mean, mean - reach, mean + reach


def mean_interval(
    sums: NDArray[np.float64], counted: NDArray[np.int64], seeds: NDArray[np.float64]
) -> tuple[float, float]:
    """A 95 % confidence interval of the mean of what is 0 or more, likewise.

    Args:
        sums: of each text, over all seeds, float64 (n,).
        counted: likewise, how many were summed up; not 0 of two texts at least.
        seeds: the mean of each seed, (k,).
    """
    mean = float(sums.sum() / counted.sum())
    reach = _reach([_ratio(sums, counted)], seeds)
    return max(0.0, mean - reach), mean + reach


def auc_interval(members: NDArray[np.float64], others: NDArray[np.float64]) -> tuple[float, float]:
    """A 95 % confidence interval of an area under the ROC curve, likewise.

    The variance over texts is that of DeLong et al. (1988). They write an AUC as the mean of one
    contribution for each text, over the members and over the others.

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
    return _of_share(members.mean(), parts, members.mean(1), min(sizes))


def rate_interval(
    members: NDArray[np.float64], others: NDArray[np.float64], rate: float
) -> tuple[float, float]:
    """An exact 95 % confidence interval of the share of members above a score.

    The score is the one that `rate` of all others exceed. It lies between two ranks of those seen,
    by the binomial distribution of how many exceed it. At these ranks the members' share has the
    limits of Clopper and Pearson (1934). Half of the error is for the ranks. Few others have no
    rank surely above the score: the lower limit is then 0. Of several seeds the limits are means.

    Args:
        members: scores, float64 (k, m).
        others: likewise (k, n).
        rate: of false positives.
    """
    error, m, n = (1 - CONFIDENCE) / 4, members.shape[1], others.shape[1]
    ranked = np.pad(np.sort(others), ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))[:, ::-1]
    ranks = int(binom.ppf(error, n, rate)), int(binom.isf(error, n, rate)) + 1
    least, most = ((members > ranked[:, rank, None]).sum(1) for rank in ranks)
    low = np.nan_to_num(beta.ppf(error, least, m - least + 1))  # nan: none is above
    high = np.nan_to_num(beta.isf(error, most + 1, m - most), nan=1.0)  # all are
    return float(low.mean()), float(high.mean())


def _ratio(sums: NDArray[Any], counted: NDArray[np.int64]) -> tuple[float, int]:
    """The variance of a ratio of sums over texts, with its degrees of freedom."""
    total, free = counted.sum(), max(1, len(counted) - 1)
    residuals = sums - sums.sum() / total * counted
    return float((residuals**2).sum() / total**2 * len(counted) / free), free


def _of_share(
    share: float, parts: Sequence[tuple[float, int]], seeds: NDArray[np.float64], texts: int
) -> tuple[float, float]:
    """The interval around a share, from parts of its variance with their degrees of freedom.

    A share of exactly 0 or 1 has no variance, although the next text may differ. Its bound is that
    of Clopper and Pearson (1934).
    """
    share = float(share)
    if reach := _reach(parts, seeds):
        return max(0.0, share - reach), min(1.0, share + reach)
    beyond = float(((1 - CONFIDENCE) / 2) ** (1 / texts))
    return beyond if share == 1 else share, 1 - beyond if share == 0 else share


def _reach(
    parts: Sequence[tuple[float, int]], seeds: NDArray[np.float64], confidence: float = CONFIDENCE
) -> float:
    """How far an interval reaches to either side, by Student's t; the seeds are a part, too."""
    if len(seeds) > 1:
        parts = [*parts, (seeds.var(ddof=1) / len(seeds), len(seeds) - 1)]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return 0.0
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    return float(t.ppf((1 + confidence) / 2, freedom) * np.sqrt(variance))
