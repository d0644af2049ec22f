"""Tidy tables of the words' statistics: calibrations, levels, channels, distances and layers."""

from __future__ import annotations

from typing import Any

from rapt.reporting.rows import once
from rapt.results.reader import Results

REPLACED = ("replaced", "replaced_low", "replaced_high")
# Quantiles of N_w and S_w over words, in the order of a channel's JSON.
QUANTILES = ("least", "5", "25", "median", "75", "95", "most")
DENIABILITY = tuple(f"{statistic}_{name}" for statistic in ("n_w", "s_w") for name in QUANTILES)
# Distances of hidden states from the clean model's, and between texts.
DISTANCES = ("distance", "spread")
PARTS = ("mean", "sd", "n")
COLUMNS = {
    "calibration": ("embedding", "mechanism", "eta", *REPLACED, "n_w"),
    "targets": ("embedding", "mechanism", "replaced", "eta", "eta_low", "eta_high"),
    "levels": (
        *("embedding", "method", "level", "eta", *REPLACED),
        *("recovered", "recovered_high", "metric", "guarantee"),
    ),
    "channels": (
        *("embedding", "method", "eta", "choice", "words", "draws"),
        *(*REPLACED, *DENIABILITY),
    ),
    "neighbours": ("embedding", "k", "mean", "eta"),
    "categories": ("embedding", "category", "words", "mean", "variance"),
    "layers": (
        *("task", "backbone", "tuner", "method", "eta", "layer"),
        *(f"{distance}_{part}" for distance in DISTANCES for part in PARTS),
    ),
}


@once
def statistics(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table of COLUMNS."""
    curves, targets = (
        [
            {"embedding": embedding, "mechanism": mechanism, **row}
            for embedding, content in results.calibrations.items()
            for mechanism, rows in (content[part] if content else {}).items()
            for row in sorted(rows, key=order)
        ]
        # The targets stay in their order.
        for part, order in (("curves", _eta), ("targets", lambda row: 0))
    )
    geometries = [(name, content) for name, content in results.geometries.items() if content]
    return {
        "calibration": curves,
        "targets": targets,
        "levels": [
            {"embedding": embedding, **row}
            for embedding, rows in results.levels.items()
            for row in rows
        ],
        # Of the words that were sampled, and of the most frequent.
        "channels": [
            {**content, **content[choice], "choice": choice}
            | dict(zip(DENIABILITY, content[choice]["n_w"] + content[choice]["s_w"], strict=True))
            for content in results.channels.values()
            if content
            for choice in ("sampled", "frequent")
        ],
        # With the η whose mean noise is as long.
        "neighbours": [
            {"embedding": embedding, **found, "eta": content["dimension"] / found["mean"]}
            for embedding, content in geometries
            for found in content["neighbours"]
        ],
        "categories": [
            {"embedding": embedding, **found}
            for embedding, content in geometries
            for found in content["categories"]
        ],
        "layers": [
            {**content["factors"], "layer": layer["layer"]}
            | {f"{name}_{part}": layer[name][part] for name in DISTANCES for part in PARTS}
            for content in results.layers.values()
            if content
            for layer in content["layers"]
        ],
    }


def _eta(row: dict[str, Any]) -> float:
    return float(row["eta"])
