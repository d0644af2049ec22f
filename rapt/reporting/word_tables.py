"""Tidy tables of the words' statistics: calibrations, levels, channels and distances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rapt.results.reader import Results

REPLACED = ("replaced", "replaced_low", "replaced_high")
# Quantiles of N_w and S_w over words, in the order of a channel's JSON.
QUANTILES = ("least", "5", "25", "median", "75", "95", "most")


def calibration(results: Results) -> list[dict[str, Any]]:
    """Return one row for each embedding, mechanism and η."""
    return [
        row
        for of_mechanism in _of_calibrations(results, "curves")
        for row in sorted(of_mechanism, key=lambda row: float(row["eta"]))
    ]


def targets(results: Results) -> list[dict[str, Any]]:
    """Return one row for each embedding, mechanism and target share, with its η."""
    return [row for of_mechanism in _of_calibrations(results, "targets") for row in of_mechanism]


def _of_calibrations(results: Results, part: str) -> Iterator[list[dict[str, Any]]]:
    for embedding, content in results.calibrations.items():
        for mechanism, found in (content[part] if content else {}).items():
            yield [{"embedding": embedding, "mechanism": mechanism, **row} for row in found]


def levels(results: Results) -> list[dict[str, Any]]:
    """Return one row for each embedding, method and level, with its η."""
    return [{"embedding": name, **row} for name, rows in results.levels.items() for row in rows]


def channels(results: Results) -> list[dict[str, Any]]:
    """Return one row for each channel and choice of its words: sampled or most frequent."""
    return [
        {
            **{name: content[name] for name in ("embedding", "method", "eta", "draws")},
            "choice": choice,
            **{name: content[choice][name] for name in ("words", *REPLACED)},
            **{
                f"{statistic}_{quantile}": value
                for statistic in ("n_w", "s_w")
                for quantile, value in zip(QUANTILES, content[choice][statistic], strict=True)
            },
        }
        for content in results.channels.values()
        if content
        for choice in ("sampled", "frequent")
    ]


def neighbours(results: Results) -> list[dict[str, Any]]:
    """Return one row for each embedding and k, with the η whose mean noise is that long."""
    return [
        {"embedding": embedding, **found, "eta": content["dimension"] / found["mean"]}
        for embedding, content in results.geometries.items()
        if content
        for found in content["neighbours"]
    ]


def categories(results: Results) -> list[dict[str, Any]]:
    """Return one row for each embedding and category, with its pairwise distances."""
    return [
        {"embedding": embedding, **found}
        for embedding, content in results.geometries.items()
        if content
        for found in content["categories"]
    ]


def layers(results: Results) -> list[dict[str, Any]]:
    """Return one row for each comparison of hidden states and layer: RAPT's Figure 9."""
    return [
        {
            **content["factors"],
            "layer": layer["layer"],
            **{
                f"{measure}_{part}": layer[measure][part]
                for measure in ("distance", "spread")
                for part in ("mean", "sd", "n")
            },
        }
        for content in results.layers.values()
        if content
        for layer in content["layers"]
    ]


# Tables of the words' statistics: their rows, and their columns.
STATISTICS: dict[str, tuple[Callable[[Results], list[dict[str, Any]]], tuple[str, ...]]] = {
    "calibration": (calibration, ("embedding", "mechanism", "eta", *REPLACED, "n_w")),
    "targets": (
        targets,
        ("embedding", "mechanism", "replaced", "eta", "eta_low", "eta_high"),
    ),
    "levels": (
        levels,
        (
            *("embedding", "method", "level", "eta", *REPLACED),
            *("recovered", "recovered_high", "metric", "guarantee"),
        ),
    ),
    "channels": (
        channels,
        (
            *("embedding", "method", "eta", "choice", "words", "draws", *REPLACED),
            *(f"{statistic}_{name}" for statistic in ("n_w", "s_w") for name in QUANTILES),
        ),
    ),
    "neighbours": (neighbours, ("embedding", "k", "mean", "eta")),
    "layers": (
        layers,
        (
            *("task", "backbone", "tuner", "method", "eta", "layer"),
            *("distance_mean", "distance_sd", "distance_n", "spread_mean", "spread_sd", "spread_n"),
        ),
    ),
    "categories": (categories, ("embedding", "category", "words", "mean", "variance")),
}
