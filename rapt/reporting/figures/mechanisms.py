"""Figures of mechanisms on single words: calibration, plausible deniability, geometry."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from rapt.grid import sorted_etas
from rapt.reporting import tables
from rapt.reporting.figures.drawing import Figure, eta_steps, finish, line, panel, slug, spoken
from rapt.reporting.figures.style import DASHES, MUTED, PALETTE
from rapt.results.reader import Results


def calibrations(results: Results) -> Iterator[Figure]:
    """Draw the share of words replaced over η, one panel for each table."""
    for embedding, content in results.calibrations.items():
        if not content:
            continue
        with panel() as (canvas, axes):
            for mechanism, curve in content["curves"].items():
                number = _number(results, mechanism)
                curve = sorted(curve, key=lambda point: float(point["eta"]))
                x = [float(point["eta"]) for point in curve]
                low, high = ([100 * p[f"replaced_{end}"] for p in curve] for end in ("low", "high"))
                axes.fill_between(x, low, high, color=PALETTE[number], alpha=0.18, linewidth=0)
                line(axes, number, mechanism, x, [100 * p["replaced"] for p in curve])
            for eta in results.params.sweep.etas:
                if embedding == results.params.embedding:
                    axes.axvline(float(eta), color=MUTED, linewidth=0.9, linestyle=":")
            axes.set_xlabel(f"η (embedding {embedding})")
            axes.set_ylabel("words replaced, %")
            axes.set_ylim(-2, 102)
            axes.set_title(f"calibration · {embedding}")
            yield finish(
                canvas,
                "calibration",
                f"calibration-{embedding}",
                f"Share of {content['words']} words of the table {embedding} that are replaced, "
                f"{content['draws']} draws each. Dotted: the η of this report.",
                spoken(
                    "Words replaced",
                    {
                        f"{mechanism}, η {p['eta']}": (p["replaced"],)
                        for mechanism, curve in content["curves"].items()
                        for p in curve
                    },
                ),
            )


def deniabilities(results: Results) -> Iterator[Figure]:
    """Draw N_w and S_w over η: the median word, with bars over the middle 90 % of words."""
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
            with panel() as (canvas, axes):
                for place, method in enumerate(methods):
                    shown = [row for row in own if row["method"] == method]
                    shift = 0.1 * (place - (len(methods) - 1) / 2)
                    middle, low, high = (
                        [row[f"{statistic}_{name}"] for row in shown] for name in ("median", 5, 95)
                    )
                    line(
                        axes,
                        _number(results, method),
                        method,
                        [etas.index(row["eta"]) + shift for row in shown],
                        middle,
                        None,
                        [
                            [m - end for m, end in zip(middle, low, strict=True)],
                            [end - m for m, end in zip(middle, high, strict=True)],
                        ],
                    )
                eta_steps(axes, etas)
                axes.set_ylabel(label)
                axes.set_title(f"plausible deniability · {embedding}")
                yield finish(
                    canvas,
                    "deniability",
                    slug(f"{statistic}-{embedding}"),
                    f"{caption}, by η: the median of {own[0]['words']} words of {embedding}, and "
                    f"bars over the middle 90 % of them; {own[0]['draws']} draws each.",
                    spoken(
                        f"{caption}, median word",
                        {f"{r['method']}, η {r['eta']}": (r[f"{statistic}_median"],) for r in own},
                        scale=1,
                    ),
                )


def geometries(results: Results) -> Iterator[Figure]:
    """Draw the mean noise norm d/η and the mean distances of nearest neighbours."""
    for embedding, content in results.geometries.items():
        if not content:
            continue
        neighbours = content["neighbours"]
        etas = sorted(float(eta) for eta in results.params.calibrate.etas)
        with panel() as (canvas, axes):
            norms = [content["dimension"] / eta for eta in etas]
            line(axes, 0, "noise, d/η", etas, norms)
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
            yield finish(
                canvas,
                "geometry",
                f"geometry-{embedding}",
                f"How long the noise of T2T and PCT2T is in the mean, against the mean distance of "
                f"a word of {embedding} to its k-th nearest, over {content['sampled']} words.",
                spoken(
                    "Mean distance to the k-th nearest word",
                    {f"k = {found['k']}": (found["mean"],) for found in neighbours},
                    scale=1,
                ),
            )


def _number(results: Results, name: str) -> int:
    """Return the number of a mechanism or method, which looks the same in every figure."""
    methods = results.params.sweep.methods
    others = [other for other in sorted(results.params.methods) if other not in methods]
    known = [*methods, *others]
    return known.index(name) if name in known else len(known)
