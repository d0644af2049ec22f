"""The figures, as SVG whose bytes depend on the cells alone."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from rapt.plan import sorted_etas
from rapt.reporting import tables
from rapt.reporting.cells import Cell, Results
from rapt.reporting.tables import Privacy, Utility
from rapt.reporting.text import attack_text, group_text

# Okabe and Ito: told apart with every kind of colour vision; markers and dashes say it again.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)))
INK, MUTED, RULE, PAPER = "#1c2024", "#5f6871", "#d5dade", "#fefefe"
# What the page's style sheet may recolour, for the dark; elsewhere the colour itself stands.
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    PAPER: "surface",
    **{colour: f"series-{number}" for number, colour in enumerate(PALETTE)},
}
STYLE: Any = {  # matplotlib types the keys as literals
    "svg.hashsalt": "rapt",
    # Text stays text: it can be searched, read aloud and recoloured.
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.5,
}
METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass(frozen=True)
class Figure:
    """One panel: its file's name, what it shows in words, and the drawing."""

    section: str
    name: str
    caption: str
    description: str
    svg: str

    def inline(self) -> str:
        """The drawing to stand in a page: recolourable, named for screen readers, ids its own."""
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


def figures(results: Results) -> list[Figure]:
    """Every figure for which there is data."""
    utility, privacy = tables.utility(results), tables.privacy(results)
    return [
        *_trade_offs(utility, privacy),
        *_utility_curves(utility),
        *_privacy_curves(privacy, results.params.sweep.methods),
        *_calibrations(results),
        *_deniabilities(results),
        *_geometries(results),
        *_trainings(results),
    ]


def _trade_offs(utility: Sequence[Utility], privacy: Sequence[Privacy]) -> Iterator[Figure]:
    """Accuracy against empirical privacy: for each tuned group, each attack that fits it.

    What is denoised has the privacy of its release.
    """
    for group in tables.groups(utility):
        for attack in tables.groups(privacy):
            name, task, target = attack
            kinds = {r.kind for r in privacy if r.group == attack}
            if kinds & {"invert", "recognize"} and task != group[0]:
                continue  # of another task's words
            own = [r for r in utility if r.on_grid and r.group == group]
            at = {(r.method, r.eta): r for r in privacy if r.group == attack}
            points = {
                label: [
                    (at[r.method, r.eta], r)
                    for r in _by_eta(own)
                    if r.label == label
                    and r.accuracy is not None
                    and (r.method, r.eta) in at
                    and at[r.method, r.eta].empirical_privacy is not None
                ]
                for label in tables.labels(utility)
            }
            if not any(points.values()):
                continue
            with _panel() as (canvas, axes):
                for number, (label, pairs) in enumerate(points.items()):
                    _line(
                        axes,
                        number,
                        label,
                        [100 * (p.empirical_privacy or 0) for p, _ in pairs],
                        [100 * (u.accuracy or 0) for _, u in pairs],
                        [100 * (p.empirical_privacy_sd or 0) for p, _ in pairs],
                        [100 * (u.accuracy_sd or 0) for _, u in pairs],
                    )
                    for p, u in pairs:
                        _annotate(axes, number, p, u)
                _floor(axes, next((r.majority for r in own if r.majority), None))
                axes.set_xlabel(f"empirical privacy, % ({name}: {target})")
                axes.set_ylabel("accuracy, %")
                axes.set_title(f"{group_text(group)}")
                axes.margins(0.12)
                yield _figure(
                    canvas,
                    "trade-off",
                    "pareto-" + "-".join([*group, name, task, _slug(target)]),
                    f"{group_text(group)} against {attack_text(*attack)}. Up and to the right is "
                    "better; every point is one η, its bars one standard deviation over seeds.",
                    _spoken(
                        "Accuracy against empirical privacy",
                        {
                            f"{label}, η {u.eta}": (p.empirical_privacy, u.accuracy)
                            for label, pairs in points.items()
                            for p, u in pairs
                        },
                    ),
                )


def _utility_curves(rows: Sequence[Utility]) -> Iterator[Figure]:
    for group in tables.groups(rows):
        own = [r for r in rows if r.on_grid and r.group == group and r.accuracy is not None]
        if not own:
            continue
        with _panel() as (canvas, axes):
            values = {(r.label, r.eta): (r.accuracy, r.accuracy_sd) for r in own}
            _over_eta(axes, values, tables.labels(rows))
            _floor(axes, own[0].majority)
            axes.set_ylabel("accuracy, %")
            axes.set_title(group_text(group))
            yield _figure(
                canvas,
                "accuracy",
                "accuracy-" + "-".join(group),
                f"Accuracy by η, {group_text(group)}. Dotted: the most frequent class.",
                _spoken("Accuracy by η", {f"{m}, η {e}": (v[0],) for (m, e), v in values.items()}),
            )


def _privacy_curves(rows: Sequence[Privacy], methods: Sequence[str]) -> Iterator[Figure]:
    for group in tables.groups(rows):
        own = [r for r in rows if r.group == group and r.empirical_privacy is not None]
        if not own:
            continue
        with _panel() as (canvas, axes):
            values = {(r.method, r.eta): (r.empirical_privacy, r.empirical_privacy_sd) for r in own}
            _over_eta(axes, values, methods)
            # An inversion's floor differs by method, as the words that they protect do.
            for n, floor in enumerate(sorted({r.majority for r in own if r.majority is not None})):
                _floor(axes, 1 - floor, "_" if n else "nothing learned")
            axes.set_ylabel("empirical privacy, %")
            axes.set_title(attack_text(*group))
            yield _figure(
                canvas,
                "privacy",
                "privacy-" + "-".join([*group[:2], _slug(group[2])]),
                f"Empirical privacy by η, {attack_text(*group)}. Dotted: the floor, where the "
                "attack does no better than the most frequent answer.",
                _spoken(
                    "Empirical privacy by η",
                    {f"{m}, η {e}": (v[0],) for (m, e), v in values.items()},
                ),
            )


def _calibrations(results: Results) -> Iterator[Figure]:
    for embedding, content in results.calibrations.items():
        if not content:
            continue
        with _panel() as (canvas, axes):
            for number, (mechanism, curve) in enumerate(content["curves"].items()):
                curve = sorted(curve, key=lambda point: float(point["eta"]))
                x = [float(point["eta"]) for point in curve]
                low, high = ([100 * p[f"replaced_{end}"] for p in curve] for end in ("low", "high"))
                axes.fill_between(x, low, high, color=PALETTE[number], alpha=0.18, linewidth=0)
                _line(axes, number, mechanism, x, [100 * p["replaced"] for p in curve])
            for eta in results.params.sweep.etas:
                if eta != "inf" and embedding == results.params.embedding:
                    axes.axvline(float(eta), color=MUTED, linewidth=0.9, linestyle=":")
            axes.set_xlabel(f"η (embedding {embedding})")
            axes.set_ylabel("words replaced, %")
            axes.set_ylim(-2, 102)
            axes.set_title(f"calibration · {embedding}")
            yield _figure(
                canvas,
                "calibration",
                f"calibration-{embedding}",
                f"Share of {content['words']} words of the table {embedding} that are replaced, "
                f"{content['draws']} draws each. Dotted: the η of this report.",
                _spoken(
                    "Words replaced",
                    {
                        f"{mechanism}, η {p['eta']}": (p["replaced"],)
                        for mechanism, curve in content["curves"].items()
                        for p in curve
                    },
                ),
            )


def _deniabilities(results: Results) -> Iterator[Figure]:
    """N_w and S_w over η: the median word, and bars over the middle nine tenths of the words."""
    rows = [row for row in tables.channels(results) if row["choice"] == "sampled"]
    names = {
        "n_w": ("N_w, of 1,000 draws", "Draws of 1,000 that keep a word"),
        "s_w": ("S_w, distinct words", "Distinct words that the draws of a word give"),
    }
    for embedding in dict.fromkeys(row["embedding"] for row in rows):
        own = [row for row in rows if row["embedding"] == embedding]
        etas = sorted_etas(list({row["eta"] for row in own}))
        methods = list(dict.fromkeys(row["method"] for row in own))
        for statistic, (label, caption) in names.items():
            with _panel() as (canvas, axes):
                for number, method in enumerate(methods):
                    shown = [row for row in own if row["method"] == method]
                    shift = 0.1 * (number - (len(methods) - 1) / 2)
                    middle, low, high = (
                        [row[f"{statistic}_{name}"] for row in shown] for name in ("median", 5, 95)
                    )
                    _line(
                        axes,
                        number,
                        method,
                        [etas.index(row["eta"]) + shift for row in shown],
                        middle,
                        None,
                        [
                            [m - end for m, end in zip(middle, low, strict=True)],
                            [end - m for m, end in zip(middle, high, strict=True)],
                        ],
                    )
                _eta_steps(axes, etas)
                axes.set_ylabel(label)
                axes.set_title(f"plausible deniability · {embedding}")
                yield _figure(
                    canvas,
                    "deniability",
                    _slug(f"{statistic}-{embedding}"),
                    f"{caption}, by η: the median of {own[0]['words']} words of {embedding}, and "
                    f"bars over the middle 90 % of them; {own[0]['draws']} draws each.",
                    _spoken(
                        f"{caption}, median word",
                        {f"{r['method']}, η {r['eta']}": (r[f"{statistic}_median"],) for r in own},
                        scale=1,
                    ),
                )


def _geometries(results: Results) -> Iterator[Figure]:
    """The mean noise norm d/η, and how far the neighbours are."""
    for embedding, content in results.geometries.items():
        if not content:
            continue
        neighbours = content["neighbours"]
        etas = sorted(float(eta) for eta in results.params.calibrate.etas if eta != "inf")
        with _panel() as (canvas, axes):
            norms = [content["dimension"] / eta for eta in etas]
            _line(axes, 0, "noise, d/η", etas, norms)
            for number, found in enumerate(neighbours, start=1):
                axes.axhline(
                    found["mean"],
                    label=f"k = {found['k']}",
                    color=PALETTE[number % len(PALETTE)],
                    linestyle=DASHES[number % len(DASHES)],
                    linewidth=1.4,
                )
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(ScalarFormatter())
            axes.yaxis.set_minor_locator(NullLocator())
            axes.set_xlabel(f"η (embedding {embedding})")
            axes.set_ylabel("Euclidean distance")
            axes.set_title(f"noise and neighbours · {embedding}")
            yield _figure(
                canvas,
                "geometry",
                f"geometry-{embedding}",
                f"How long the noise of T2T and PCT2T is in the mean, against the mean distance of "
                f"a word of {embedding} to its k-th nearest, over {content['sampled']} words.",
                _spoken(
                    "Mean distance to the k-th nearest word",
                    {f"k = {found['k']}": (found["mean"],) for found in neighbours},
                    scale=1,
                ),
            )


def _trainings(results: Results) -> Iterator[Figure]:
    """Small multiples: a panel for each method (or study) and curve, a line for each η."""
    rows = tables.utility(results)
    multiples: list[tuple[str, list[Cell]]] = [
        (
            " · ".join([*group, label]),
            [
                cell
                for eta in sorted_etas(results.params.sweep.etas)
                for kind in ("train", "denoise")
                for cell in results.of(
                    kind, **dict(zip(("task", "backbone", "tuner"), group, strict=True)), eta=eta
                )
                if cell.label == label
            ],
        )
        for group in tables.groups(rows)
        for label in tables.labels(rows)
    ]
    multiples += [(f"study · {cell.plan.cell}", [cell]) for cell in results.of("study")]
    for title, cells in multiples:
        names = dict.fromkeys(name for cell in cells for name in cell.curves())
        # The loss that decides stands first.
        for name in sorted(names, key=lambda n: (n != "task_loss", "loss" not in n, n)):
            yield _training(title, name, cells)


def _training(title: str, name: str, cells: Sequence[Cell]) -> Figure:
    with _panel(3.4, 2.5) as (canvas, axes):
        for number, cell in enumerate(cells):
            for seed, values in enumerate(cell.curves().get(name, [])):
                epochs = list(range(1, len(values) + 1))
                label = f"η {cell.factors['eta']}" if seed == 0 else "_"
                _line(axes, number, label, epochs, values, size=4, width=1.3)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title(title.split(" · ")[-1])
        axes.set_ylabel(name.replace("_", " "))
        last = {
            f"η {cell.factors['eta']}, seed {seed}": (values[-1],)
            for cell in cells
            for seed, values in enumerate(cell.curves().get(name, []))
        }
        return _figure(
            canvas,
            "training",
            _slug(f"training-{title}-{name}"),
            f"{title}: {name.replace('_', ' ')}, one line a seed.",
            _spoken(f"{name.replace('_', ' ')} after the last epoch", last, scale=1),
        )


@contextmanager
def _panel(width: float = 4.6, height: float = 3.5) -> Iterator[tuple[Canvas, Axes]]:
    """A panel in the report's style, of a width that can be read on a phone."""
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(width, height), layout="constrained")
        yield canvas, canvas.subplots()


def _line(
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
    """One series; its number chooses colour, marker and dashes together."""
    if not x:
        return
    axes.errorbar(
        x,
        y,
        xerr=x_error,
        yerr=y_error,
        label=label,
        color=PALETTE[number % len(PALETTE)],
        marker=MARKERS[number % len(MARKERS)],
        linestyle=DASHES[number % len(DASHES)],
        elinewidth=1,
        markersize=size,
        linewidth=width,
    )


def _over_eta(
    axes: Axes, values: dict[tuple[str, str], tuple[float | None, float | None]], methods: Any
) -> None:
    """A line for each method over η as equal steps, as inf has no place on a scale."""
    etas = sorted_etas(list({eta for _, eta in values}))
    for number, method in enumerate(methods):
        shown = [(etas.index(e), v) for (m, e), v in values.items() if m == method]
        shown.sort(key=lambda item: item[0])
        _line(
            axes,
            number,
            method,
            [x + 0.06 * (number - (len(methods) - 1) / 2) for x, _ in shown],
            [100 * (mean or 0) for _, (mean, _) in shown],
            None,
            [100 * (sd or 0) for _, (_, sd) in shown],
        )
    _eta_steps(axes, etas)


def _eta_steps(axes: Axes, etas: Sequence[str]) -> None:
    labels = ["inf\n(unprotected)" if eta == "inf" else eta for eta in etas]
    axes.set_xticks(range(len(etas)), labels)
    axes.set_xlim(-0.4, len(etas) - 0.6)
    axes.set_xlabel("η")


def _floor(axes: Axes, share: float | None, label: str = "most frequent class") -> None:
    if share is not None:
        axes.axhline(100 * share, color=MUTED, linewidth=1.1, linestyle=":", label=label)


def _annotate(axes: Axes, number: int, p: Privacy, u: Utility) -> None:
    """The η beside its point; methods turn to different sides, as their points lie close."""
    x, y = ((-10, -13), (13, 4), (0, 9), (-14, 4), (0, -16), (12, -13))[number % 6]
    axes.annotate(
        u.eta,
        (100 * (p.empirical_privacy or 0), 100 * (u.accuracy or 0)),
        (x, y),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        color=PALETTE[number % len(PALETTE)],
        path_effects=[withStroke(linewidth=3, foreground=PAPER)],
    )


def _figure(canvas: Canvas, section: str, name: str, caption: str, description: str) -> Figure:
    # Below the axes, where it hides no point.
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: isinstance(handles[i], Line2D))  # floors last
    canvas.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower center",
        ncols=4,
        fontsize=9,
        columnspacing=1.2,
    )
    text = io.StringIO()
    canvas.savefig(text, format="svg", metadata=METADATA)
    svg = "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
    return Figure(section, name, caption, description, svg)


def _spoken(title: str, values: Mapping[str, tuple[float | None, ...]], scale: float = 100) -> str:
    """The figure's numbers in words."""
    form = "{:.1f}" if scale == 100 else "{:.3g}"
    parts = [
        f"{name}: {' and '.join(form.format(scale * v) for v in numbers if v is not None)}"
        for name, numbers in values.items()
    ]
    return f"{title}. {'; '.join(parts)}."


def _by_eta(rows: Sequence[Utility]) -> list[Utility]:
    return sorted(rows, key=lambda row: float(row.eta))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("_", "-")).strip("-")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
