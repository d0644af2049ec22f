"""Accuracy and empirical privacy over η."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes

from rapt.grid import sorted_etas
from rapt.reporting import tables
from rapt.reporting.figures.drawing import (
    CLEAN_TEXT,
    Figure,
    clean_line,
    eta_steps,
    finish,
    floor_line,
    line,
    panel,
    slug,
    spoken,
)
from rapt.reporting.tables import Privacy, Utility
from rapt.reporting.text import attack_text, group_text, unproven


def accuracy_name(group: Sequence[str]) -> str:
    """The name of the panel of a tuned group."""
    return "accuracy-" + "-".join(group)


def privacy_name(group: Sequence[str]) -> str:
    """The name of the panel of an attack on a target."""
    return "privacy-" + "-".join(map(slug, group))


def accuracy_curves(rows: Sequence[Utility]) -> Iterator[Figure]:
    """One panel for each group that is tuned."""
    for group in tables.groups(rows):
        ran = [r for r in rows if r.on_grid and r.group == group and r.accuracy is not None]
        own = [row for row in ran if not row.unprotected]
        if not own:
            continue
        with panel() as (canvas, axes):
            values = {(r.label, r.eta): (r.accuracy, r.accuracy_sd) for r in own}
            _over_eta(axes, values, tables.labels(rows))
            if clean := tables.clean(rows, group):
                clean_line(axes, clean.accuracy, clean.accuracy_sd)
            floor_line(axes, own[0].majority)
            axes.set_ylabel("accuracy, %")
            axes.set_title(group_text(group))
            yield finish(
                canvas,
                "accuracy",
                accuracy_name(group),
                f"Accuracy by η, {group_text(group)}. Dotted: the most frequent class.",
                spoken(
                    "Accuracy by η",
                    {f"{m}, η {e}": (v[0],) for (m, e), v in values.items()}
                    | ({CLEAN_TEXT: (clean.accuracy,)} if clean else {}),
                ),
            )


def privacy_curves(rows: Sequence[Privacy], methods: Sequence[str]) -> Iterator[Figure]:
    """One panel for each attack and target."""
    for group in tables.groups(rows):
        every = [row for row in rows if row.group == group]
        ran = tables.drawn(every)
        own = [row for row in ran if not row.unprotected]
        if not own:
            continue
        with panel() as (canvas, axes):
            values = {(r.method, r.eta): (r.empirical_privacy, r.empirical_privacy_sd) for r in own}
            _over_eta(axes, values, methods)
            for clean in (row for row in ran if row.unprotected):
                clean_line(axes, clean.empirical_privacy, clean.empirical_privacy_sd)
            # An inversion's floor differs by method, as the words that they protect do.
            for n, floor in enumerate(sorted({r.majority for r in own if r.majority is not None})):
                floor_line(axes, 1 - floor, "_" if n else "nothing learned")
            axes.set_ylabel("empirical privacy, %")
            axes.set_title(attack_text(*group))
            yield finish(
                canvas,
                "privacy",
                privacy_name(group),
                f"Empirical privacy by η, {attack_text(*group)}. Dotted: the floor, where the "
                "attack does no better than an answer without looking."
                + unproven(tables.doubt(every)),
                spoken(
                    "Empirical privacy by η",
                    {f"{m}, η {e}": (v[0],) for (m, e), v in values.items()},
                ),
            )


def _over_eta(
    axes: Axes, values: dict[tuple[str, str], tuple[float | None, float | None]], methods: Any
) -> None:
    """A line for each method over η as equal steps."""
    etas = sorted_etas(list({eta for _, eta in values}))
    for number, method in enumerate(methods):
        shown = [(etas.index(e), v) for (m, e), v in values.items() if m == method]
        shown.sort(key=lambda item: item[0])
        line(
            axes,
            number,
            method,
            [x + 0.06 * (number - (len(methods) - 1) / 2) for x, _ in shown],
            [100 * (mean or 0) for _, (mean, _) in shown],
            None,
            [100 * (sd or 0) for _, (_, sd) in shown],
        )
    eta_steps(axes, etas)
