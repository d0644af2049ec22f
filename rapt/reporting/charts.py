"""A figure as rows of data: its Vega-Lite specification, and the SVG and PNG made of that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import vl_convert
from markupsafe import Markup, escape

from rapt.results.reader import Results

# Okabe and Ito: distinct in every kind of colour vision; shapes and dashes are a second cue.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
DASHES = ((1, 0), (6, 3), (6, 2, 2, 2), (2, 2), (8, 2, 2, 2, 2, 2), (2, 4))
INK, MUTED, RULE, PAPER = "#1c2024", "#5f6871", "#d5dade", "#fefefe"
# The colours that the page's style sheet replaces, for light and dark.
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    PAPER: "surface",
    **{colour: f"series-{number}" for number, colour in enumerate(PALETTE)},
}
# The converter brings Liberation Sans, so the layout is the same on every machine.
FONT = "Liberation Sans, Arial, sans-serif"
PAGE_FONT = "system-ui, sans-serif"
WIDTH, HEIGHT = 440, 240
SMALL_WIDTH, SMALL_HEIGHT = 330, 150
# Pixels of a PNG for each unit of the SVG.
# Points nearer to each other than this, in percentage points, are drawn this far apart.
COVERS, ASIDE = 1.0, 1.8
PNG_SCALE = 1.6
# Labels of the points, on a different side for each series, as points may be close.
SIDES = ((-10, 11), (13, -4), (0, -12), (-14, -5), (0, 14), (12, 11))
CONFIG: Any = {
    "background": PAPER,
    "font": FONT,
    # A figure is one image with one description, on the page too.
    "aria": False,
    **{mark: {"aria": False} for mark in ("area", "line", "point", "rect", "rule", "text")},
    "view": {"stroke": None},
    "title": {"anchor": "start", "color": INK, "fontSize": 13},
    "axis": {
        "domainColor": MUTED,
        "gridColor": RULE,
        "labelColor": INK,
        "labelFontSize": 11,
        "tickColor": MUTED,
        "tickCount": 6,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {
        "columnPadding": 24,  # a reader's font may be wider than that of the drawing
        "labelColor": INK,
        "labelFontSize": 11,
        "labelLimit": 0,
        "layout": {"bottom": {"anchor": "start", "direction": "vertical", "offset": 10}},
        "orient": "bottom",
        "symbolSize": 70,
        "symbolStrokeWidth": 1.6,
    },
}
Point = dict[str, Any]


@dataclass(frozen=True)
class Look:
    """How a series is drawn; its number in `look` determines all three."""

    color: str
    dash: Sequence[int]
    shape: str


# Lines to compare with, which have no points.
SOLID = Look(MUTED, (1, 0), "stroke")
DASHED = Look(MUTED, (6, 3), "stroke")
DOTTED = Look(MUTED, (1, 3), "stroke")


def look(number: int) -> Look:
    """Return the look of a series; where the colours repeat, dashes and shapes are shifted."""
    turned = (number + number // len(PALETTE)) % len(PALETTE)
    return Look(PALETTE[number % len(PALETTE)], DASHES[turned], SHAPES[turned])


def at_eta(series: str, eta: str, **values: Any) -> Point:
    """Return a point of a series with its η for a tooltip."""
    return {"series": series, "at": f"η {eta}", **values}


def rounded(value: float) -> float:
    """Drop digits that no figure shows."""
    return float(f"{value:.6g}")


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each series, in their order."""
    return {name: look(number) for number, name in enumerate(names)}


def looks_of_methods(results: Results, names: Iterable[str]) -> dict[str, Look]:
    """Return the looks of mechanisms or methods, which are the same in every figure."""
    p = results.params
    known = list(dict.fromkeys([*p.sweep.methods, *sorted(p.methods), *sorted(p.synthesizers)]))
    numbers = {name: known.index(name) if name in known else len(known) for name in names}
    return {name: look(number) for name, number in sorted(numbers.items(), key=lambda i: i[1])}


def slug(text: str) -> str:
    """Turn a text into a part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("_", "-")).strip("-")


@dataclass(frozen=True)
class Axis:
    """An axis of a figure.

    Attributes:
        title: the quantity and its unit; further lines say more.
        form: format of the values in descriptions and tooltips.
        steps: names of equal steps, whose indices are the values; empty: the values are numbers.
        domain: least and greatest value; None: as the data.
        integer: whether all values are integers.
        log: whether the scale is logarithmic.
        spoken: whether the description names the values.
    """

    title: str
    form: str = ".3g"
    steps: Sequence[str] = ()
    domain: tuple[float, float] | None = None
    integer: bool = False
    log: bool = False
    spoken: bool = False

    def encoding(self, field: str) -> dict[str, Any]:
        """Return the Vega-Lite encoding of a field on this axis."""
        scale: dict[str, Any] = {"zero": False, "padding": 12}
        axis: dict[str, Any] = {}
        if self.domain:
            scale = {"domain": self.domain, "nice": False}
        if self.log:
            scale = {"type": "log", "nice": False, "padding": 12}
        if self.integer:
            axis = {"format": "d", "tickMinStep": 1}
        if self.steps:
            scale = {"domain": (-0.4, len(self.steps) - 0.6), "nice": False}
            axis = _named(self.steps)
        title = self.title.splitlines()
        named = {"field": field, "title": title, "scale": scale, "axis": axis}
        return {"type": "quantitative", **named}


def _named(steps: Sequence[str]) -> dict[str, Any]:
    """Return an axis with a name at each step; long names are broken and turned."""
    lines = [re.findall(r"\S.{0,19}(?=\s|$)", name) for name in steps]
    names = json.dumps(lines, ensure_ascii=False)
    turned = {"labelAngle": -45, "labelAlign": "right", "labelLimit": 0}
    return {
        "values": list(range(len(steps))),
        "tickCount": len(steps),  # fewer would leave some out
        "labelExpr": f"{names}[datum.value]",
        "labelOverlap": False,
        "grid": False,
        **(turned if max(map(len, steps)) > 6 else {}),
    }


@dataclass(frozen=True)
class Figure:
    """One panel of the report.

    A row is a point of a series. Without `x` it is a level over the whole width, and without `y`
    a vertical line. Rows of one series are joined in their order.

    Attributes:
        section: the section of the page.
        name: of its files, and its id on the page.
        title: above the panel.
        caption: below it, on the page.
        spoken: the heading of its description for screen readers.
        rows: `series`, `x`, `y`. Optional are the ends of error bars, `x_low`, `x_high`, `y_low`
            and `y_high`, and `x_sd` and `y_sd`. `at` is the point's name in the description and
            tooltip, `text` stands beside the point, and `line` tells lines of one series apart.
        looks: of each series, in the order of the legend.
        x: the horizontal axis.
        y: the vertical axis.
        menu: heading and label in the menu of its section's chart.
        small: whether it is one of many beside each other.
        joined: whether lines join the points.
        band: whether the spread is an area instead of error bars.
    """

    section: str
    name: str
    title: str
    caption: str
    spoken: str
    rows: Sequence[Point]
    looks: Mapping[str, Look]
    x: Axis
    y: Axis
    menu: tuple[str, str] = ("", "")
    small: bool = False
    joined: bool = True
    band: bool = False

    @property
    def description(self) -> str:
        """The figure's numbers in words."""
        parts = []
        for row in self.rows:
            if row.get("y") is None or ("x" in row and "at" not in row):
                continue
            name = ", ".join(row[key] for key in ("series", "at") if key in row)
            values = [f"{row['y']:{self.y.form}}"]
            if self.x.spoken and "x" in row:
                values.insert(0, f"{row['x']:{self.x.form}}")
            parts.append(f"{name}: {' and '.join(values)}")
        return f"{self.spoken}. {'; '.join(parts)}."

    @property
    def spec(self) -> dict[str, Any]:
        """The Vega-Lite specification: what the page draws, and the files are made of."""
        shown = {row["series"] for row in self.rows}
        own = {row["series"] for row in self.rows if "x" in row and "y" in row}
        pointed = {n: s for n, s in self.looks.items() if n in own and s.shape != "stroke"}
        plain = {n: s for n, s in self.looks.items() if n in shown and n not in pointed}
        return {
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": SMALL_WIDTH if self.small else WIDTH,
            "height": SMALL_HEIGHT if self.small else HEIGHT,
            # Laid out again, as the legend's columns follow the width.
            "autosize": {"type": "fit-x", "contains": "padding", "resize": True},
            "title": self.title,
            "config": CONFIG,
            "layer": [_pointed(self, pointed), *([_plain(self, plain)] if plain else [])],
            "resolve": {"scale": dict.fromkeys(("color", "shape", "strokeDash"), "independent")},
        }

    @cached_property
    def svg(self) -> str:
        """The image as SVG, in which text stays text."""
        return vl_convert.vegalite_to_svg(self.spec, allowed_base_urls=[]) + "\n"

    @property
    def png(self) -> bytes:
        """The image as PNG."""
        return vl_convert.svg_to_png(self.svg, scale=PNG_SCALE)

    @property
    def page_svg(self) -> Markup:
        """The SVG for the page: in its colours, labelled for screen readers, with unique ids.

        Its font stays: the places of its texts were measured in it.
        """
        title = f"{self.name}-title"
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{self.name}-", self.svg.rstrip())
        # The opening tag is replaced, with its size: the page's column is the width.
        box, drawing = re.findall(r'^<svg [^>]*(viewBox="[^"]*")[^>]*>(.*)', svg, re.S)[0]
        return Markup(
            f'<svg {box} role="img" aria-labelledby="{title}">'
            f'<title id="{title}">{escape(self.description)}</title>{_on_page(drawing)}'
        )

    @property
    def page_spec(self) -> dict[str, Any]:
        """The specification in the page's colours and font."""
        spec: dict[str, Any] = json.loads(_on_page(json.dumps(self.spec)).replace(FONT, PAGE_FONT))
        return spec


def _on_page(text: str) -> str:
    """Replace colours by the page's."""
    for colour, name in VARIABLES.items():
        text = text.replace(colour, f"var(--{name}, {colour})")
    return text


def _plain(figure: Figure, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Return the layers of the series without points: levels, vertical lines and curves."""
    rows = [row for row in figure.rows if row["series"] in looks]
    x, y = figure.x.encoding("x"), figure.y.encoding
    series = _encoding(looks, "color", "strokeDash", symbol="stroke")
    parts: list[tuple[list[Point], dict[str, Any], dict[str, Any]]] = [
        (
            [row for row in rows if "x" not in row and "y_low" in row],
            {"type": "rect", "opacity": 0.15, "color": MUTED},
            {"y": y("y_low"), "y2": {"field": "y_high"}},
        ),
        ([row for row in rows if "x" not in row], {"type": "rule"}, {"y": y("y"), **series}),
        ([row for row in rows if "y" not in row], {"type": "rule"}, {"x": x, **series}),
        (
            [row for row in rows if "x" in row and "y" in row],
            {"type": "line"},
            {"x": x, "y": y("y"), **series},
        ),
    ]
    layers = [
        {"data": {"values": values}, "mark": {"strokeWidth": 1.5, **mark}, "encoding": encoding}
        for values, mark, encoding in parts
        if values
    ]
    return {"layer": layers}


def _pointed(figure: Figure, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Return the layers of the series with points: lines, spread, points and their labels."""
    values = _points(figure, list(looks))
    present = {name for row in values for name in row}
    x, y = figure.x.encoding("x"), figure.y.encoding("y")
    faded = {"opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.12}}
    color = _encoding(looks, "color")
    upright = {"x": x, "y": figure.y.encoding("y_low"), "y2": {"field": "y_high"}, **color}
    flat = {"x": figure.x.encoding("x_low"), "x2": {"field": "x_high"}, "y": y, **color}
    layers: list[dict[str, Any]] = []
    if figure.band:
        # Its own scale, as the legend would show the area's opacity.
        fill = upright | _encoding(looks, "fill", legend=False)
        del fill["color"]
        layers.append({"mark": {"type": "area", "opacity": 0.18}, "encoding": fill})
    if figure.joined:
        lines = {"x": x, "y": y, "order": {"field": "order"}, "detail": {"field": "line"}}
        lines |= _encoding(looks, "color", "strokeDash")
        width = 1.3 if figure.small else 2
        mark = {"type": "line", "strokeWidth": width}
        layers.append({"mark": mark, "encoding": lines | faded})
    for bound, bars in (("y_low", upright), ("x_low", flat)):
        if bound in present and not figure.band:
            isolated = {"transform": [{"filter": f"isValid(datum.{bound})"}], "mark": "rule"}
            layers.append({**isolated, "encoding": bars | faded})
    picked = {"type": "point", "fields": ["series"]}
    size = 20 if figure.small or not figure.joined else 60
    points = {"x": x, "y": y, **color, **_encoding(looks, "shape"), **faded}
    layers.append(
        {
            "params": [{"name": "picked", "select": picked, "bind": "legend"}],
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": size},
            "encoding": points | {"tooltip": _tooltips(figure, present)},
        }
    )
    if "text" in present:
        layers += [_labels(figure, name, number) for number, name in enumerate(looks)]
    return {"data": {"values": values}, "layer": layers}


def _points(figure: Figure, names: Sequence[str]) -> list[Point]:
    """Return the rows of some series, in order; on equal steps they stand side by side.

    So do points that would cover each other, as of two methods with the same release.
    """
    shift = min(0.06, 0.5 / len(names)) if figure.x.steps and figure.joined else 0.0
    values: list[Point] = []
    rows = [row for row in figure.rows if row["series"] in names]
    for order, row in enumerate(rows):
        place = names.index(row["series"]) - (len(names) - 1) / 2
        x = row["x"] + shift * place
        if figure.x.domain:
            x += ASIDE * sum(
                max(abs(row[end] - other[end]) for end in "xy") < COVERS for other in rows[:order]
            )
        values.append({**row, "x": round(x, 4), "order": order})
    return values


def _labels(figure: Figure, series: str, number: int) -> dict[str, Any]:
    dx, dy = SIDES[number % len(SIDES)]
    return {
        "transform": [{"filter": {"field": "series", "equal": series}}],
        "mark": {"type": "text", "dx": dx, "dy": dy, "fontSize": 10},
        "encoding": {
            "x": figure.x.encoding("x"),
            "y": figure.y.encoding("y"),
            "text": {"field": "text"},
            "color": {"value": figure.looks[series].color},
        },
    }


def _encoding(
    looks: Mapping[str, Look], *channels: str, symbol: str | None = None, legend: bool = True
) -> dict[str, Any]:
    """Return the series' encoding by some channels, which share a legend, if there is one.

    Its symbol is `symbol`, or else by the channels.
    """
    parts = {"color": "color", "fill": "color", "shape": "shape", "strokeDash": "dash"}
    # Room for a symbol and the longest label.
    columns = {"expr": f"max(1, floor((width + 40) / {44 + 6 * max(map(len, looks))}))"}
    shown: dict[str, Any] = {"title": None, "columns": columns}
    shown |= {"symbolType": symbol} if symbol else {"symbolStrokeWidth": 0}
    return {
        channel: {
            "field": "series",
            "type": "nominal",
            "scale": {
                "domain": list(looks),
                "range": [getattr(own, parts[channel]) for own in looks.values()],
            },
            "legend": shown if legend else None,
        }
        for channel in channels
    }


def _tooltips(figure: Figure, present: set[str]) -> list[dict[str, Any]]:
    shown = [("series", "series", ""), ("at", "at", "")]
    for field, axis in (("x", figure.x), ("y", figure.y)):
        if not axis.steps:
            title = axis.title.splitlines()[0]
            shown += [(field, title, axis.form), (f"{field}_sd", "± sd", axis.form)]
    return [
        {"field": field, "title": title} | ({"format": form} if form else {})
        for field, title, form in shown
        if field in present
    ]
