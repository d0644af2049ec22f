"""Tidy table of what tuned models wrote: one row for each cell and group of its test rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rapt.grid import SCORE, is_unprotected
from rapt.reporting.rows import Row, mean, once, parts
from rapt.reporting.utility_table import ENDS
from rapt.results.reader import ReadCell, Results

ALL = "all"
OF = "bleu_of_"  # before a group, in the metrics of a cell


# Of the texts of a cell, on all test rows and on groups of them, which have BLEU alone. BLEU,
# chrF++, TER and shares are from 0 to 1; TER counts edits, and may exceed 1.
WRITTEN = (
    *("cell", "task", "protect", "backbone", "tuner", "method", "eta", "protection", "group"),
    *("bleu", "bleu_sd", "bleu_low", "bleu_high", "seeds", "bleu_lower", "chrf", "ter"),
    # The share of the sources' entities that stand in the texts, word for word.
    "entity_recall",
    # The BLEU of handing over the source itself, and of one reference against the others.
    *("copied", "human", "command"),
)


@once
def written(results: Results) -> list[Row]:
    """Return the rows of every cell that scores texts, all test rows before their groups."""
    return [row for cell in results.of(SCORE) for row in _rows(results, cell)]


def by_task(results: Results) -> dict[tuple[str, ...], list[tuple[Row, list[Row]]]]:
    """Return by task, backbone and tuner each cell's row on all test rows, and those of groups."""
    cells = [list(rows) for _, rows in groupby(written(results), key=lambda row: row.cell)]
    found: dict[tuple[str, ...], list[tuple[Row, list[Row]]]] = {}
    for first, *others in cells:
        group = (first.task, first.backbone, first.tuner)
        found.setdefault(group, []).append((first, others))
    return found


def _rows(results: Results, cell: ReadCell) -> Iterator[Row]:
    task = cell.factors["task"]
    local = results.local(task)
    names = cell.content.metrics if cell.content else {}
    for name in ("bleu", *(name for name in names if name.startswith(OF))):
        of_all = name == "bleu"
        bleu = cell.metric(name)
        others = ("bleu_lower", "chrf", "ter", "entity_recall") if of_all else ()
        yield Row.of(
            WRITTEN,
            cell=cell.plan.cell,
            protect=results.params.tasks[task].shared_noise,
            **cell.factors,
            protection=cell.protection,
            group=ALL if of_all else name.removeprefix(OF),
            **parts("bleu", bleu, "sd", *ENDS),
            seeds=bleu.n if bleu else None,
            **{other: mean(cell.metric(other)) for other in others},
            copied=mean(local.metric(name)) if local else None,
            human=mean(local.metric("bleu_human")) if local and of_all else None,
            command=cell.plan.command,
            unprotected=is_unprotected(cell.factors["eta"]),
        )
