"""Texts that may be of the training data, and how well an attack tells those that are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from rapt import paths
from rapt.analysis.intervals import auc_interval, rate_interval
from rapt.attacks.base import Membership
from rapt.serving.model import Adapted
from rapt.text.table import EmbeddingTable


def scores(attack: Membership, model: Adapted, tagged: pa.Table) -> NDArray[np.float64]:
    """Ask an adapted model about n labelled texts as they were written, and score each, (n,).

    Before each stand the public plain words, if any, as they are. A model that takes vectors is
    given the words' own, from the table in models/tables.
    """
    statement, words = model.contract.statement, tagged["words"].to_pylist()
    columns = {
        "words": words,
        "segment": tagged["segment"].to_pylist(),
        "plain": [model.contract.plain[0] if model.contract.plain else []] * len(words),
        "label": tagged["label"].to_pylist(),
    }
    vectors = None
    if statement.vectors:
        table = EmbeddingTable(paths.table(statement.embedding))
        vectors = torch.from_numpy(table.embed(list(chain.from_iterable(words))))
    return attack.scores(model.answers(columns, vectors).numpy(), np.array(columns["label"]))


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
        return {"auc": auc, "tpr_at_1": tpr_at_1(*self.scores), "empirical_privacy": 1 - auc}


def tpr_at_1(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """The share of the members above a score that at most 1 % of the others exceed."""
    rank = len(others) - 1 - len(others) // 100
    return float((members > np.partition(others, rank)[rank]).mean())


def intervals(seeds: Sequence[Ranking]) -> dict[str, tuple[float, float]]:
    """A 95 % confidence interval for each metric, over texts and seeds."""
    low, high = auc_interval(
        np.stack([seed.members for seed in seeds]), np.stack([seed.others for seed in seeds])
    )
    members, others = (np.stack(scores) for scores in zip(*(s.scores for s in seeds), strict=True))
    return {
        "auc": (low, high),
        "tpr_at_1": rate_interval(tpr_at_1, members, others),
        "empirical_privacy": (1 - high, 1 - low),
    }


def _below(some: NDArray[np.float64], than: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each of some scores the share of others that it exceeds, equal ones counting half."""
    ranked = np.sort(than)
    sides = [np.searchsorted(ranked, some, side) for side in ("left", "right")]
    return (sides[0] + sides[1]) / (2 * len(than))
