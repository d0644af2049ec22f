"""The leaderboard: mechanisms at one level, with ranks as sure as the test texts make them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.baselines.combined import stacked
from rapt.param_types import level
from rapt.reporting import tables, utility_table
from rapt.reporting.comparisons import ranks
from rapt.reporting.utility_table import Tuned, Utility
from rapt.results.reader import Results

Right = NDArray[np.bool_]


@dataclass(frozen=True)
class Entry(Tuned):
    """A mechanism at a level, on a task, tuned and scored.

    Its list has the same task, backbone, tuner and level, and the same use of the local model.
    """

    task: str
    backbone: str
    tuner: str
    level: str
    method: str
    with_local: bool
    # What is claimed for it, the η that gives the level, and its guarantee by which distance.
    protection: str
    eta: float | None
    metric: str | None
    guarantee: str | None
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    # The best and the worst rank by accuracy that the texts leave open; 1 is the highest accuracy.
    rank_low: int
    rank_high: int
    over_local: float | None
    over_local_low: float | None
    over_local_high: float | None
    over_local_p: float | None
    against_local: str | None
    # The strongest attack on the release, and the share of protected words that it recovers.
    attack: str | None
    recovered: float | None
    recovered_low: float | None
    recovered_high: float | None
    # The attribute that is inferred best from texts privatized alike, of this task or another, and
    # how often.
    attribute: str | None
    inferred: float | None
    inferred_low: float | None
    inferred_high: float | None
    replaced_share: float | None

    @property
    def rank(self) -> str:
        """The rank as a number, or as a range."""
        ends = dict.fromkeys((self.rank_low, self.rank_high))
        return "–".join(map(str, ends))


def leaderboard(results: Results) -> list[Entry]:
    """Return a row for each tuned cell at a level, the highest accuracy of each list first.

    Cells at an η of their own are left out: equal η is not equal protection. So are lists of one.
    """
    attacks, lists = tables.privacy(results), defaultdict[Any, list[tuple[Utility, Right]]](list)
    cells = {cell.plan.cell: cell.predictions for cell in results.of("train")}
    for row in utility_table.utility(results):
        predicted = cells.get(row.cell, {}) if row.kind == "train" else {}
        if level(row.eta) is None or "test" not in predicted:
            continue
        own, local = predicted["test"], results.local(row.task)
        if row.with_local and local:
            own = stacked(predicted, local.predictions)
        lists[(*row.group, row.eta, row.with_local)].append((row, own.right))
    found = []
    for several in lists.values():
        if len(several) > 1:
            open_ranks = ranks([right for _, right in several])
            entries = [
                _entry(results, row, attacks, *ends)
                for (row, _), ends in zip(several, open_ranks, strict=True)
            ]
            found += sorted(entries, key=lambda entry: -(entry.accuracy or 0))
    return found


def _entry(
    results: Results, row: Utility, attacks: Sequence[tables.Privacy], best: int, worst: int
) -> Entry:
    shared = Entry.__annotations__.keys() & Utility.__annotations__.keys() - {"eta"}
    at = next(
        (
            found
            for found in results.levels.get(row.embedding, ())
            if (found["method"], found["level"]) == (row.method, row.eta)
        ),
        {},
    )
    attack = tables.strongest(tables.on_words(row, attacks))
    alike = ("infer", row.method, row.eta)
    inference = tables.strongest(a for a in attacks if (a.kind, a.method, a.eta) == alike)
    return Entry(
        **{name: getattr(row, name) for name in shared},
        level=row.eta,
        eta=at.get("eta"),
        metric=at.get("metric"),
        guarantee=at.get("guarantee"),
        rank_low=best,
        rank_high=worst,
        against_local=row.against_local,
        attack=attack.attack if attack else None,
        recovered=attack.attack_accuracy if attack else None,
        recovered_low=attack.attack_accuracy_low if attack else None,
        recovered_high=attack.attack_accuracy_high if attack else None,
        attribute=f"{inference.target} of {inference.task}" if inference else None,
        inferred=inference.attack_accuracy if inference else None,
        inferred_low=inference.attack_accuracy_low if inference else None,
        inferred_high=inference.attack_accuracy_high if inference else None,
    )
