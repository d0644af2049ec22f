"""Tidy table of tuned cells that answer neither with classes nor with texts to score."""

from __future__ import annotations

from collections.abc import Iterator

from rapt.grid import TUNED, is_unprotected
from rapt.reporting.rows import Row, mean, once, parts
from rapt.reporting.text import PLUS_MINUS
from rapt.reporting.utility_table import ENDS
from rapt.results.reader import ReadCell, Results

# Of a tuned cell: the metric of its kind of task, with its 95 % confidence interval. Beside it are
# the score of a trivial answer and that of sending nothing.
MEASURED = (
    *("kind", "cell", "task", "backbone", "tuner", "method", "eta", "protection"),
    *("metric", "value", "value_sd", "value_low", "value_high", "seeds"),
    *("baseline", "local", "command"),
)


@once
def measured(results: Results) -> list[Row]:
    """Return a row for each of these cells, of kinds of task from other packages."""
    return [row for stage in TUNED for cell in results.of(stage) for row in _rows(results, cell)]


def _rows(results: Results, cell: ReadCell) -> Iterator[Row]:
    task = cell.factors["task"]
    kind, local = results.params.kind(task), results.local(task)
    if kind.has_classes or results.params.tasks[task].scored_apart:
        return
    value = cell.metric(kind.metric)
    yield Row.of(
        MEASURED,
        **cell.factors,
        kind=kind.name,
        cell=cell.plan.cell,
        protection=cell.protection,
        metric=kind.metric,
        **parts("value", value, "sd", *ENDS),
        seeds=value.n if value else None,
        baseline=cell.baseline(kind.metric),
        local=mean(local.metric(kind.metric)) if local else None,
        command=cell.plan.command,
        unprotected=is_unprotected(cell.factors["eta"]),
    )


def measured_text(value: float | None, sd: float | None = None) -> str:
    """Format a number of any metric."""
    if value is None:
        return "–"
    return f"{value:.3g}" + ("" if sd is None else f" {PLUS_MINUS} {sd:.2g}")
