"""Tidy table of what tuned models wrote: one row for each cell and group of its test rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rapt.grid import SCORE, is_unprotected
from rapt.results.reader import Cell, Results

ALL = "all"
OF = "bleu_of_"  # before a group, in the metrics of a cell


@dataclass(frozen=True)
class Written:
    """The scores of the texts of a cell; those of a group of test rows are of its BLEU alone.

    BLEU, chrF++, TER and shares are from 0 to 1; TER counts edits, and may exceed 1.
    """

    cell: str
    task: str
    protect: str
    backbone: str
    tuner: str
    method: str
    eta: str
    protection: str
    group: str
    bleu: float | None
    bleu_sd: float | None
    bleu_low: float | None
    bleu_high: float | None
    seeds: int | None
    bleu_lower: float | None
    chrf: float | None
    ter: float | None
    # The share of the sources' entities that stand in the texts, word for word.
    entity_recall: float | None
    # The BLEU of handing over the source itself, and of one reference against the others.
    copied: float | None
    human: float | None
    command: str

    @property
    def unprotected(self) -> bool:
        """Whether the words are the originals."""
        return is_unprotected(self.eta)


def written(results: Results) -> list[Written]:
    """Return the rows of every cell that scores texts, all test rows before their groups."""
    return [row for cell in results.of(SCORE) for row in _rows(results, cell)]


def by_task(results: Results) -> dict[tuple[str, ...], list[tuple[Written, list[Written]]]]:
    """Return by task, backbone and tuner each cell's row on all test rows, and those of groups."""
    cells = [list(rows) for _, rows in groupby(written(results), key=lambda row: row.cell)]
    found: dict[tuple[str, ...], list[tuple[Written, list[Written]]]] = {}
    for first, *others in cells:
        group = (first.task, first.backbone, first.tuner)
        found.setdefault(group, []).append((first, others))
    return found


def _rows(results: Results, cell: Cell) -> Iterator[Written]:
    local = results.local(cell.factors["task"])

    def value(of: Cell | None, name: str) -> float | None:
        metric = of.metric(name) if of else None
        return metric.mean if metric else None

    names = cell.content.metrics if cell.content else {}
    groups = [name.removeprefix(OF) for name in names if name.startswith(OF)]
    for group in (ALL, *groups):
        of_all = group == ALL
        name = "bleu" if of_all else f"{OF}{group}"
        bleu = cell.metric(name)
        of = cell if of_all else None
        yield Written(
            cell=cell.plan.cell,
            protect=results.params.tasks[cell.factors["task"]].protect,
            task=cell.factors["task"],
            backbone=cell.factors["backbone"],
            tuner=cell.factors["tuner"],
            method=cell.factors["method"],
            eta=cell.factors["eta"],
            protection=cell.protection,
            group=group,
            bleu=bleu.mean if bleu else None,
            bleu_sd=bleu.sd if bleu else None,
            bleu_low=bleu.low if bleu else None,
            bleu_high=bleu.high if bleu else None,
            seeds=bleu.n if bleu else None,
            bleu_lower=value(of, "bleu_lower"),
            chrf=value(of, "chrf"),
            ter=value(of, "ter"),
            entity_recall=value(of, "entity_recall"),
            copied=value(local, name),
            human=value(local, "bleu_human") if of_all else None,
            command=cell.plan.command,
        )
