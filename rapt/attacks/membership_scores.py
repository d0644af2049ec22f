"""How well an attack's scores tell members from other texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rapt.analysis.intervals import auc_interval, rate_interval

RATES = {"tpr_at_1": 0.01, "tpr_at_01": 0.001}
# Of a curve, evenly on a logarithmic scale.
FALSE_POSITIVES = tuple(np.logspace(-3, 0, 16).tolist())


@dataclass(frozen=True, eq=False)
class Ranking:
    """Where one seed's scores put members among others; of equal ones half are above.

    Attributes:
        scores: of m members and of n others, float64.
        members: for each the share of the others that it scores above, float64 (m,).
        others: for each the share of the members that score above it, float64 (n,).
    """

    scores: tuple[NDArray[np.float64], NDArray[np.float64]]
    members: NDArray[np.float64]
    others: NDArray[np.float64]

    @classmethod
    def of(cls, members: NDArray[np.float64], others: NDArray[np.float64]) -> Ranking:
        """Rank by the scores of m members and n others."""
        return cls((members, others), _below(members, others), 1 - _below(others, members))

    def metrics(self) -> dict[str, float]:
        """The metrics of a `membership` cell (docs/data.md)."""
        auc = float(self.members.mean())
        told = {name: self.told(rate) for name, rate in RATES.items()}
        return {"auc": auc, **told, "empirical_privacy": 1 - auc}

    def told(self, rate: float) -> float:
        """The share of the members above a score that at most this share of the others exceeds."""
        members, others = self.scores
        exceeding = int(rate * len(others) + 1e-9)  # 0.07 · 100 is 7.000000000000001
        if exceeding == len(others):
            return 1.0
        rank = len(others) - 1 - exceeding
        return float((members > np.partition(others, rank)[rank]).mean())

    def curve(self) -> dict[str, list[float]]:
        """The ROC curve, for a figure with logarithmic axes."""
        return {
            "false_positive_rate": list(FALSE_POSITIVES),
            "true_positive_rate": [self.told(rate) for rate in FALSE_POSITIVES],
        }


def intervals(seeds: Sequence[Ranking]) -> dict[str, tuple[float, float]]:
    """A 95 % confidence interval for each metric, over texts and seeds."""
    low, high = auc_interval(
        np.stack([seed.members for seed in seeds]), np.stack([seed.others for seed in seeds])
    )
    members, others = (np.stack(scores) for scores in zip(*(s.scores for s in seeds), strict=True))
    return {
        "auc": (low, high),
        **{name: rate_interval(members, others, rate) for name, rate in RATES.items()},
        "empirical_privacy": (1 - high, 1 - low),
    }


def _below(some: NDArray[np.float64], than: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each of some scores the share of others that it exceeds, equal ones counting half."""
    ranked = np.sort(than)
    sides = [np.searchsorted(ranked, some, side) for side in ("left", "right")]
    return (sides[0] + sides[1]) / (2 * len(than))
