"""The page's interactive charts, by Altair: all panels of a section in one, shown one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import altair as alt

from rapt.grid import sorted_etas
from rapt.reporting import tables
from rapt.reporting.figures.curves import accuracy_name, privacy_name
from rapt.reporting.figures.drawing import CLEAN_TEXT
from rapt.reporting.figures.trade_offs import pairs
from rapt.reporting.tables import Privacy, Utility
from rapt.reporting.text import attack_text, group_text
from rapt.results.reader import Results

HEIGHT = 400
# Vega draws dashes and shapes by these names; the page gives the colours, for light and dark.
DASHES = [[1, 0], [6, 3], [6, 2, 2, 2], [2, 2], [8, 2, 2, 2, 2, 2], [2, 4]]
SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"]
TITLES = {"privacy": "empirical privacy, %", "accuracy": "accuracy, %"}
# What the levels that hold for every method are called beside their lines.
FLOORS = {"privacy": "nothing learned", "accuracy": "most frequent class"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """One choice of a chart's menu: the figure that it shows, and what the menu calls it."""

    figure: str
    heading: str
    label: str


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification whose parameter `panel` chooses the figure that is shown."""

    panels: list[Panel]
    spec: dict[str, Any]

    @property
    def menu(self) -> list[tuple[str, list[Panel]]]:
        """The panels under their headings."""
        return [
            (heading, list(own))
            for heading, own in groupby(self.panels, lambda panel: panel.heading)
        ]


def charts(results: Results) -> dict[str, Chart]:
    """A chart for each section of the page that has data for one."""
    utility, privacy = tables.utility(results), tables.privacy(results)
    labels, methods = tables.labels(utility), results.params.sweep.methods
    found = {
        "trade-off": _chart(list(_trade_offs(utility, privacy)), labels, "privacy", "accuracy"),
        "accuracy": _chart(list(_accuracies(utility)), labels, "eta", "accuracy"),
        "privacy": _chart(list(_privacies(privacy)), methods, "eta", "privacy"),
    }
    return {section: chart for section, chart in found.items() if chart}


def _trade_offs(
    utility: Sequence[Utility], privacy: Sequence[Privacy]
) -> Iterator[tuple[Panel, list[Row]]]:
    for found in pairs(utility, privacy):
        clean = _clean(found.clean)
        rows = [
            {
                **_point(label, u.eta, found.majority),
                **clean,
                **_spread("privacy", p.empirical_privacy, p.empirical_privacy_sd),
                **_spread("accuracy", u.accuracy, u.accuracy_sd),
            }
            for label, points in found.points.items()
            for p, u in points
        ]
        yield Panel(found.name, group_text(found.group), attack_text(*found.attack)), rows


def _accuracies(utility: Sequence[Utility]) -> Iterator[tuple[Panel, list[Row]]]:
    for group in tables.groups(utility):
        clean = _clean(tables.clean(utility, group))
        rows = [
            {
                **_point(r.label, r.eta, r.majority),
                **clean,
                **_spread("accuracy", r.accuracy, r.accuracy_sd),
            }
            for r in utility
            if r.on_grid and r.group == group and r.accuracy is not None and not r.unprotected
        ]
        yield Panel(accuracy_name(group), "", group_text(group)), rows


def _privacies(privacy: Sequence[Privacy]) -> Iterator[tuple[Panel, list[Row]]]:
    for group in tables.groups(privacy):
        drawn = tables.drawn([row for row in privacy if row.group == group])
        clean = _clean(next((row for row in drawn if row.unprotected), None))
        rows = [
            {
                **_point(r.label, r.eta, None if r.majority is None else 1 - r.majority),
                **clean,
                **_spread("privacy", r.empirical_privacy, r.empirical_privacy_sd),
            }
            for r in drawn
            if not r.unprotected
        ]
        yield Panel(privacy_name(group), group[1], attack_text(*group)), rows


def _point(label: str, eta: str, floor: float | None) -> Row:
    return {"method": label, "eta": eta, "floor": _percent(floor)}


def _clean(row: Utility | Privacy | None) -> Row:
    """The baseline, beside every point; None: it has not run."""
    if isinstance(row, Utility):
        return _spread("clean", row.accuracy, row.accuracy_sd)
    if isinstance(row, Privacy):
        return _spread("clean", row.empirical_privacy, row.empirical_privacy_sd)
    return _spread("clean", None, None)


def _spread(name: str, mean: float | None, sd: float | None) -> Row:
    """A mean in percent, and one standard deviation to both sides."""
    low, high = (None if mean is None else mean + side * (sd or 0) for side in (-1, 1))
    values = {name: mean, f"{name}_low": low, f"{name}_high": high, f"{name}_sd": sd}
    return {key: _percent(value) for key, value in values.items()}


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _chart(
    found: Sequence[tuple[Panel, list[Row]]], labels: Sequence[str], x: str, y: str
) -> Chart | None:
    """A line for each method over η, with points and their standard deviation.

    The floor is dotted; clean text is a line, with a band of its standard deviation.
    """
    panels = [panel for panel, rows in found if rows]
    if not panels:
        return None
    etas = sorted_etas(list({row["eta"] for _, rows in found for row in rows}))
    rows = [
        {"panel": panel.figure, "step": etas.index(row["eta"]), **row}
        for panel, rows in found
        for row in rows
    ]
    over_eta = x == "eta"
    picked = alt.selection_point(name="picked", fields=["method"], bind="legend")
    marks = alt.Chart().encode(
        x=_eta_axis(etas) if over_eta else alt.X(x, **_percents(x)),
        y=alt.Y(y, **_percents(y)),
        color=alt.Color("method:N", title=None, scale=alt.Scale(domain=list(labels))),
        opacity=alt.condition(picked, alt.value(1), alt.value(0.12)),
    )
    names = ("floor", "clean", "clean_low", "clean_high")
    once = alt.Chart().transform_aggregate(
        [alt.AggregatedFieldDef(op="max", field=name, **{"as": name}) for name in names]
    )
    named = once.mark_text(align="right", dx=-4, dy=-7, fontSize=11)
    right = alt.value("width")
    layers = [
        # Silent to a screen reader: the text beside them names them.
        once.mark_rect(opacity=0.12, aria=False).encode(
            y=alt.Y("clean_low", **_percents(y)), y2="clean_high"
        ),
        once.mark_rule(aria=False).encode(y=alt.Y("clean", **_percents(y))),
        named.encode(x=right, y=alt.Y("clean", **_percents(y)), text=alt.value(CLEAN_TEXT)),
        alt.Chart().mark_rule(strokeDash=[1, 3]).encode(y=alt.Y("floor", **_percents(y))),
        named.encode(x=right, y=alt.Y("floor", **_percents(y)), text=alt.value(FLOORS[y])),
        marks.mark_line(strokeWidth=2).encode(
            strokeDash=alt.StrokeDash("method:N", title=None, scale=_styles(labels, DASHES)),
            order="step:Q",
        ),
        marks.mark_rule().encode(y=alt.Y(f"{y}_low", **_percents(y)), y2=f"{y}_high"),
        marks.mark_point(filled=True, size=75)
        .encode(
            shape=alt.Shape("method:N", title=None, scale=_styles(labels, SHAPES)),
            tooltip=[alt.Tooltip("method:N"), alt.Tooltip("eta:N", title="η"), *_tooltips(rows[0])],
        )
        .add_params(picked)
        .properties(name="points"),
    ]
    if not over_eta:
        layers += [
            marks.mark_rule().encode(x=alt.X(f"{x}_low", **_percents(x)), x2=f"{x}_high"),
            marks.mark_text(align="left", dx=8, dy=-8, fontSize=11).encode(text="eta:N"),
        ]
    chart = (
        alt.layer(*layers, data=alt.Data(values=rows))
        .add_params(alt.param(name="panel", value=panels[0].figure))
        .transform_filter("datum.panel == panel")
        .properties(width="container", height=HEIGHT)
    )
    return Chart(panels, chart.to_dict())


def _eta_axis(etas: Sequence[str]) -> alt.X:
    """η as equal steps: between them nothing is known."""
    return alt.X("eta:O", title="η", sort=list(etas), axis=alt.Axis(labelAngle=0))


def _percents(name: str) -> dict[str, Any]:
    """Equal for all layers, as their axes are one; privacy's is whole, so that attacks compare."""
    shown = alt.Scale(zero=False, padding=16)
    whole = alt.Scale(domain=[-4, 104], nice=False)
    axis = alt.Axis(values=list(range(0, 101, 20))) if name == "privacy" else alt.Undefined
    scale = whole if name == "privacy" else shown
    return {"type": "quantitative", "title": TITLES[name], "scale": scale, "axis": axis}


def _styles(labels: Sequence[str], styles: Sequence[Any]) -> alt.Scale:
    # Where the colours begin anew, dashes and shapes do not.
    chosen = [styles[(n + n // len(styles)) % len(styles)] for n in range(len(labels))]
    return alt.Scale(domain=list(labels), range=chosen)


def _tooltips(row: Row) -> Iterator[alt.Tooltip]:
    for name, title in TITLES.items():
        if name in row:
            yield alt.Tooltip(f"{name}:Q", title=title, format=".1f")
            yield alt.Tooltip(f"{name}_sd:Q", title=f"{name}, ± sd", format=".1f")
