"""The figures of the words' statistics: replacement, deniability and distances."""

from __future__ import annotations

from collections.abc import Iterator

from rapt.grid import sorted_etas
from rapt.param_types import level
from rapt.reporting.charts import (
    DOTTED,
    Axis,
    Figure,
    Point,
    at_eta,
    looks_of,
    looks_of_methods,
    rounded,
    slug,
)
from rapt.reporting.word_tables import statistics
from rapt.results.reader import Results

# Of a point, and of its interval: the quantiles of N_w and S_w that are drawn.
ENDS = ("", "_low", "_high")
SHOWN = ("median", "5", "95")


def calibrations(results: Results) -> Iterator[Figure]:
    """Draw the share of words replaced over η, for each table."""
    used = "η of this report"
    for embedding, content in results.calibrations.items():
        if not content:
            continue
        rows: list[Point] = [
            at_eta(point["mechanism"], point["eta"], x=float(point["eta"]))
            | {f"y{end}": rounded(100 * point[f"replaced{end}"]) for end in ENDS}
            for point in statistics(results)["calibration"]
            if point["embedding"] == embedding
        ]
        if embedding == results.params.embedding:
            rows += [
                {"series": used, "x": float(eta)}
                for eta in results.params.sweep.etas
                if level(eta) is None
            ]
        yield Figure(
            section="calibration",
            name=f"calibration-{embedding}",
            title=f"calibration · {embedding}",
            caption=f"Share of {content['words']} words of the table {embedding} that are "
            f"replaced, {content['draws']} draws each. Dotted: the η of this report.",
            spoken="Words replaced",
            rows=rows,
            looks=looks_of_methods(results, content["curves"]) | {used: DOTTED},
            x=Axis(f"η (embedding {embedding})"),
            y=Axis("words replaced, %", ".1f", domain=(-2, 102)),
            band=True,
        )


def deniabilities(results: Results) -> Iterator[Figure]:
    """Draw N_w and S_w over η: the median word, with bars over the middle 90 % of words."""
    channels = [row for row in statistics(results)["channels"] if row["choice"] == "sampled"]
    measures = {
        "n_w": ("N_w, of 1,000 draws", "Draws of 1,000 that keep a word"),
        "s_w": ("S_w, distinct words", "Distinct words that the draws of a word give"),
    }
    for embedding in dict.fromkeys(row["embedding"] for row in channels):
        own = [row for row in channels if row["embedding"] == embedding]
        etas = sorted_etas(list({row["eta"] for row in own}))
        for measure, (label, caption) in measures.items():
            yield Figure(
                section="deniability",
                name=slug(f"{measure}-{embedding}"),
                title=f"plausible deniability · {embedding}",
                caption=f"{caption}, by η: the median of {own[0]['words']} words of {embedding}. "
                f"Bars are over the middle 90 % of them, with {own[0]['draws']} draws each.",
                spoken=f"{caption}, median word",
                rows=[
                    at_eta(row["method"], row["eta"], x=etas.index(row["eta"]))
                    | {
                        f"y{end}": row[f"{measure}_{name}"]
                        for end, name in zip(ENDS, SHOWN, strict=True)
                    }
                    for row in own
                ],
                looks=looks_of_methods(results, [row["method"] for row in own]),
                x=Axis("η", steps=etas),
                y=Axis(label),
            )


def geometries(results: Results) -> Iterator[Figure]:
    """Draw the mean noise norm d/η and the mean distances of nearest neighbours."""
    noise, etas = "noise, d/η", sorted_etas(results.params.calibrate.etas)
    for embedding, content in results.geometries.items():
        if not content:
            continue
        rows: list[Point] = [
            at_eta(noise, eta, x=float(eta), y=rounded(content["dimension"] / float(eta)))
            for eta in etas
        ]
        near = content["neighbours"]
        rows += [{"series": f"k = {found['k']}", "y": rounded(found["mean"])} for found in near]
        yield Figure(
            section="geometry",
            name=f"geometry-{embedding}",
            title=f"noise and neighbours · {embedding}",
            caption="Mean length of the noise of T2T and PCT2T, and mean distance of a word to its "
            f"k-th nearest, over {content['sampled']} words of {embedding}.",
            spoken="Mean noise norm, and mean distance to the k-th nearest word",
            rows=rows,
            looks=looks_of(dict.fromkeys(row["series"] for row in rows)),
            x=Axis(f"η (embedding {embedding})"),
            y=Axis("Euclidean distance", log=True),
        )
