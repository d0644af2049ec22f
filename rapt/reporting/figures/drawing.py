"""Panels, their common elements, and their SVG, whose bytes depend only on the cells."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from rapt.reporting.figures.style import (
    DASHES,
    DPI,
    MARKERS,
    METADATA,
    MUTED,
    PALETTE,
    STYLE,
    VARIABLES,
)

# In hundredths of an inch, the unit of a canvas.
GAP, TITLE = 5, 25
CLEAN_TEXT = "clean text (unprotected)"


@dataclass(frozen=True)
class Figure:
    """One panel: its section and name, its description in words, and the image in two formats."""

    section: str
    name: str
    caption: str
    description: str
    svg: str
    png: bytes

    def inline(self) -> str:
        """Return the SVG for a page: recolourable, labelled for screen readers, with unique ids."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{self.name}-", svg)
        for colour, name in VARIABLES.items():
            svg = svg.replace(colour, f"var(--{name}, {colour})")
        svg = svg.replace("'DejaVu Sans'", "system-ui, sans-serif")
        svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', self._opening, svg, count=1)
        return svg

    def _opening(self, match: re.Match[str]) -> str:
        title = f"{self.name}-title"
        return (
            f'<svg viewBox="{match[1]}" role="img" aria-labelledby="{title}">'
            f'<title id="{title}">{_escape(self.description)}</title>'
        )


@contextmanager
def panel(width: float = 4.6, height: float = 3.5) -> Iterator[tuple[Canvas, Axes]]:
    """Open a panel in the report's style, narrow enough for a phone."""
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(width, height))
        yield canvas, canvas.subplots()


def line(
    axes: Axes,
    number: int,
    label: str,
    x: Sequence[float],
    y: Sequence[float],
    x_error: Sequence[float] | None = None,
    y_error: Sequence[float] | Sequence[Sequence[float]] | None = None,
    size: float | None = None,
    width: float | None = None,
) -> None:
    """Draw one series; its number determines colour, marker and dashes."""
    if not x:
        return
    # When the colours repeat, markers and dashes are shifted.
    turned = number + number // len(PALETTE)
    axes.errorbar(
        x,
        y,
        xerr=x_error,
        yerr=y_error,
        label=label,
        color=PALETTE[number % len(PALETTE)],
        marker=MARKERS[turned % len(MARKERS)],
        linestyle=DASHES[turned % len(DASHES)],
        elinewidth=1,
        markersize=size,
        linewidth=width,
    )


def eta_steps(axes: Axes, etas: Sequence[str]) -> None:
    """Show η as equal steps, as nothing is known in between."""
    axes.set_xticks(range(len(etas)), etas)
    axes.set_xlim(-0.4, len(etas) - 0.6)
    axes.set_xlabel("η")


def floor_line(axes: Axes, share: float | None, label: str = "most frequent class") -> None:
    """Draw the floor: a trivial prediction's score, by default the most frequent class's."""
    if share is not None:
        axes.axhline(100 * share, color=MUTED, linewidth=1.1, linestyle=":", label=label)


def clean_line(axes: Axes, mean: float | None, sd: float | None) -> None:
    """Draw the accuracy on clean text, in a band of one standard deviation."""
    if mean is None:
        return
    axes.axhline(100 * mean, color=MUTED, linewidth=1.4, label=CLEAN_TEXT)
    if sd:
        axes.axhspan(100 * (mean - sd), 100 * (mean + sd), color=MUTED, alpha=0.15, linewidth=0)


def finish(canvas: Canvas, section: str, name: str, caption: str, description: str) -> Figure:
    """Add the legend and render the figure."""
    _lay_out(canvas, _legend(canvas))
    text, image = io.StringIO(), io.BytesIO()
    canvas.savefig(text, format="svg", metadata=METADATA)
    canvas.savefig(image, format="png", metadata={"Software": None}, dpi=DPI)
    svg = "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
    return Figure(section, name, caption, description, svg, image.getvalue())


def _legend(canvas: Canvas) -> Legend:
    """Draw the legend below the axes, where it hides no point, in as many columns as fit."""
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: isinstance(handles[i], Line2D))  # floors last
    shown = [handles[i] for i in order], [labels[i] for i in order]
    for columns in (4, 3, 2, 1):
        legend = canvas.legend(
            *shown, loc="lower center", ncols=columns, fontsize=9, columnspacing=1.2
        )
        if columns == 1 or legend.get_window_extent().width <= canvas.bbox.width:
            break
        legend.remove()
    return legend


def _lay_out(canvas: Canvas, legend: Legend) -> None:
    """Leave room around the axes, with one measurement.

    Matplotlib's layouts measure everything twice, which takes a third of the drawing time.
    """
    axes = canvas.axes[0]
    inner = axes.bbox
    around = (axes.xaxis.get_tightbbox(), axes.yaxis.get_tightbbox())
    outer = Bbox.union([inner, *(box for box in around if box)])
    below = legend.get_window_extent().height + inner.y0 - outer.y0
    width, height = canvas.bbox.size
    canvas.subplots_adjust(
        left=(inner.x0 - outer.x0 + GAP) / width,
        bottom=(below + 2 * GAP) / height,
        right=1 - (outer.x1 - inner.x1 + GAP) / width,
        top=1 - (TITLE + GAP) / height,
    )


def spoken(title: str, values: Mapping[str, tuple[float | None, ...]], scale: float = 100) -> str:
    """Describe the figure's numbers in words."""
    form = "{:.1f}" if scale == 100 else "{:.3g}"
    parts = [
        f"{name}: {' and '.join(form.format(scale * v) for v in numbers if v is not None)}"
        for name, numbers in values.items()
    ]
    return f"{title}. {'; '.join(parts)}."


def slug(text: str) -> str:
    """Turn a text into a part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("_", "-")).strip("-")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
