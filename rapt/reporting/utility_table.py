"""The tidy table of tuned cells: their accuracy, and how far it is above sending nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.analysis.effects import FALSE_ALARMS, jointly, over_texts, pooled
from rapt.analysis.intervals import of_accuracy
from rapt.baselines.combined import stacked
from rapt.grid import LOCAL, TUNED, is_unprotected
from rapt.results.cells import summary
from rapt.results.predictions import Predictions
from rapt.results.reader import Cell, Metric, Results, label

# Of a confidence interval.
ENDS = ("low", "high")
OVER_LOCAL = ("over_local_low", "over_local_high", "joint_low", "joint_high", "over_local_p")
Over = NDArray[np.float64]  # (seeds, texts)


class Tuned:
    """A row about a tuned cell, whose `group` is fixed while method and η, or the level, vary."""

    task: str
    backbone: str
    tuner: str

    @property
    def group(self) -> tuple[str, str, str]:
        """The factors that make the group."""
        return (self.task, self.backbone, self.tuner)


@dataclass(frozen=True)
class Utility(Tuned):
    """A tuned cell: its accuracy on its own, equally privatized test split.

    With `with_local` its answers are combined with those of the user's own model.
    """

    kind: str
    cell: str
    task: str
    backbone: str
    tuner: str
    method: str
    eta: str
    embedding: str
    study: str | None
    denoiser: str | None
    with_local: bool
    protection: str
    accuracy: float | None
    accuracy_sd: float | None
    # The 95 % confidence interval over texts and seeds.
    accuracy_low: float | None
    accuracy_high: float | None
    seeds: int | None
    majority: float | None
    # Of questions with choices: how often the likeliest token of all is the right letter.
    exact_match: float | None
    # Of questions with choices: the share that is right by chance.
    chance: float | None
    # The local model's, which sends nothing.
    local: float | None
    local_low: float | None
    local_high: float | None
    # How far this row is above `to_beat`, text by text.
    over_local: float | None
    over_local_low: float | None
    over_local_high: float | None
    # An interval that leaves out 0 where the row is surely above or below.
    joint_low: float | None
    joint_high: float | None
    # Of no difference, corrected for all protected rows of a task, or all clean ones.
    over_local_p: float | None
    replaced_share: float | None
    command: str

    @property
    def label(self) -> str:
        """The method, with the denoiser and the local model if there are any."""
        return label(self.method, self.denoiser, LOCAL if self.with_local else None)

    @property
    def to_beat(self) -> float | None:
        """The accuracy of sending nothing: the local model's, or more by the most frequent class.

        None: no local model has run.
        """
        return None if self.local is None else max(self.local, self.majority or 0.0)

    @property
    def against_local(self) -> str | None:
        """Whether it is surely above sending nothing, or below it; None: not known."""
        if self.over_local is None or self.over_local_p is None:
            return None
        if self.over_local_p > FALSE_ALARMS:
            return "undecided"
        return "better" if self.over_local > 0 else "worse"

    @property
    def on_grid(self) -> bool:
        """Whether the cell is part of the sweep, not a study."""
        return self.kind != "study"

    @property
    def unprotected(self) -> bool:
        """Whether the words are the originals."""
        return is_unprotected(self.eta)


def utility(results: Results) -> list[Utility]:
    """Return one row for each tuned cell: of the grid, denoised, and of studies.

    A row on protected words is followed by the one with the local model, where both have scored
    the rows held out.
    """
    cells = [cell for kind in TUNED for cell in results.of(kind) if classifies(results, cell)]
    rows, families = list[Utility](), defaultdict[Any, dict[int, Over]](dict)
    for at, (row, over) in enumerate(pair for cell in cells for pair in utility_of(results, cell)):
        rows.append(row)
        if over is not None:
            families[row.task, row.unprotected][at] = over
    for family in families.values():
        for at, judged in _against_local(rows, family).items():
            rows[at] = replace(rows[at], **judged)
    return rows


def _against_local(rows: Sequence[Utility], family: Mapping[int, Over]) -> dict[int, Any]:
    """Return intervals and corrected p-values of rows, by what each has over sending nothing.

    Their seeds are trainings of their own, so cells of a group pool the variance over seeds.
    """
    alike = defaultdict[Any, list[Over]](list)
    for at, over in family.items():
        alike[rows[at].group, rows[at].with_local].append(over)
    seeds = {of: pooled(some) for of, some in alike.items()}
    effects = {
        at: over_texts([over[None]], seeds[rows[at].group, rows[at].with_local])
        for at, over in family.items()
    }
    unknown = (None, None)
    return {
        at: dict(zip(OVER_LOCAL, (*(e.interval() or unknown), *(joint or unknown), p), strict=True))
        for (at, e), (joint, p) in zip(effects.items(), jointly([*effects.values()]), strict=True)
    }


def classifies(results: Results, cell: Cell) -> bool:
    """Whether a cell's model predicts classes: one that writes has no accuracy."""
    return results.params.tasks[cell.factors["task"]].label is not None


def utility_of(results: Results, cell: Cell) -> Iterator[tuple[Utility, Over | None]]:
    """Yield the row of a tuned cell, and the one with the local model if there is one.

    Beside a row stands how much more it is right than sending nothing about each text. What
    `utility` tells by that is None here.
    """
    accuracy, local = cell.metric("accuracy"), results.local(cell.factors["task"])
    own, alone = cell.predictions, local.predictions if local else {}
    row = Utility(
        kind=cell.plan.kind,
        cell=cell.plan.cell,
        **{"study": None, "denoiser": None, **cell.factors},  # type: ignore[arg-type]
        with_local=False,
        protection=cell.protection,
        **parts("accuracy", accuracy, "sd", *ENDS),
        seeds=accuracy.n if accuracy else None,
        majority=cell.baseline("majority"),
        exact_match=mean(cell.metric("exact_match")),
        chance=cell.baseline("chance"),
        **parts("local", local.metric("accuracy") if local else None, *ENDS),
        over_local=None,
        over_local_low=None,
        over_local_high=None,
        joint_low=None,
        joint_high=None,
        over_local_p=None,
        replaced_share=results.replaced(cell.factors),
        command=cell.plan.command,
    )
    yield _set_against(row, own.get("test"), alone.get("test"))
    if {"train", "test"} <= own.keys() & alone.keys() and not row.unprotected and row.on_grid:
        both = stacked(own, alone)
        low, high = of_accuracy(both.right)
        combined = replace(
            row,
            with_local=True,
            exact_match=None,
            **parts(
                "accuracy", Metric(**summary(both.accuracies), low=low, high=high), "sd", *ENDS
            ),
        )
        yield _set_against(combined, both, alone["test"])


def _set_against(
    row: Utility, own: Predictions | None, local: Predictions | None
) -> tuple[Utility, Over | None]:
    if own is None or local is None or len(local.examples) < 2:
        return row, None
    guessed = local.labels == np.bincount(local.labels).argmax()
    reference = local.right if local.right.mean() >= local.majority else guessed
    over = own.right.astype(np.float64) - reference
    return replace(row, over_local=float(over.mean())), over


def labels(rows: Sequence[Utility]) -> list[str]:
    """Return the labels on the grid: methods, and methods with a denoiser, in order."""
    return list(dict.fromkeys(row.label for row in rows if row.on_grid and not row.unprotected))


def clean(rows: Sequence[Utility], group: Sequence[str]) -> Utility | None:
    """Return the baseline of a group, on clean text; None: it has not run."""
    own = (row for row in rows if row.group == group and row.unprotected and row.on_grid)
    return next((row for row in own if row.accuracy is not None), None)


def parts(name: str, metric: Metric | None, *parts: str) -> dict[str, Any]:
    """Return a metric's mean under its name, and more of it under names like accuracy_sd."""
    more = {f"{name}_{part}": getattr(metric, part, None) for part in parts}
    return {name: mean(metric)} | more


def mean(metric: Metric | None) -> float | None:
    """Return a metric's mean; None: it has not run."""
    return metric.mean if metric else None
