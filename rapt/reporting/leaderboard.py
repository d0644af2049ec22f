"""The leaderboard: mechanisms at one level, with ranks as sure as the test texts make them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.baselines.combined import stacked
from rapt.grid import PUBLIC_LABELS
from rapt.param_types import level
from rapt.reporting import tables, utility_table
from rapt.reporting.comparisons import ranks
from rapt.reporting.rows import Row, once
from rapt.reporting.utility_table import ENDS, UTILITY
from rapt.results.reader import Results

Right = NDArray[np.bool_]


# Of a mechanism at a level, on a task, whose texts a model answers that was tuned, or learnt from
# public labels. Its list has the same task, backbone, tuner and level, and the same use of the
# local model.
LEADERBOARD = (
    *("task", "backbone", "tuner", "level", "method", "with_local"),
    # What is claimed for it, the η that gives the level, and its guarantee by which distance.
    *("protection", "eta", "metric", "guarantee"),
    *("accuracy", "accuracy_low", "accuracy_high"),
    # The best and the worst rank by accuracy that the texts leave open; 1 is the highest accuracy.
    *("rank_low", "rank_high"),
    *("over_local", "over_local_low", "over_local_high", "over_local_p", "against_local"),
    # The strongest attack on the release, and the share that it gets right: of the protected words,
    # or of the texts that it links to their originals.
    *("attack", "recovered", "recovered_low", "recovered_high"),
    # The attribute that is inferred best from texts privatized alike, of this task or another, and
    # how often.
    *("attribute", "inferred", "inferred_low", "inferred_high"),
    "replaced_share",
)


@once
def leaderboard(results: Results) -> list[Row]:
    """Return a row for each such cell at a level, the highest accuracy of each list first.

    Cells at an η of their own are left out: equal η is not equal protection. So are lists of one.
    """
    attacks, lists = tables.privacy(results), defaultdict[Any, list[tuple[Row, Right]]](list)
    read = [*results.of("train"), *results.of(PUBLIC_LABELS)]
    cells = {(cell.plan.kind, cell.plan.cell): cell.predictions for cell in read}
    for row in utility_table.utility(results):
        predicted = cells.get((row.kind, row.cell), {})
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


def _entry(results: Results, row: Row, attacks: Sequence[Row], best: int, worst: int) -> Row:
    shared = set(LEADERBOARD) & set(UTILITY) - {"eta"}
    levels = results.levels.get(row.embedding, ())
    of_level = (
        found for found in levels if (found["method"], found["level"]) == (row.method, row.eta)
    )
    at = next(of_level, {})
    attack = tables.strongest(tables.on_release(row, attacks))
    alike = ("infer", row.method, row.eta)
    inference = tables.strongest(a for a in attacks if (a.kind, a.method, a.eta) == alike)
    return Row.of(
        LEADERBOARD,
        **{name: getattr(row, name) for name in (*shared, "group", "against_local")},
        level=row.eta,
        **{name: at.get(name) for name in ("eta", "metric", "guarantee")},
        rank_low=best,
        rank_high=worst,
        rank="–".join(map(str, dict.fromkeys((best, worst)))),
        attack=attack.attack if attack else None,
        **_learned("recovered", attack),
        attribute=f"{inference.target} of {inference.task}" if inference else None,
        **_learned("inferred", inference),
    )


def _learned(name: str, attack: Row | None) -> dict[str, float | None]:
    ends = ("", *(f"_{end}" for end in ENDS))
    return {f"{name}{end}": getattr(attack, f"attack_accuracy{end}", None) for end in ends}
