"""Synthetic cells with an effect that was planted in them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.grid import ATTACKED, PlannedCell, is_unprotected, plan
from rapt.params import Params
from rapt.reporting.claims import PaperClaim, claims
from rapt.results import predictions, reader
from rapt.results.cells import summary
from rapt.results.predictions import Predictions
from tests.conftest import ROOT
from tests.reporting import synthetic

# No preset: tests/every_section.yaml.
EVERY = "every"
EVERY_SECTION = (ROOT / "tests/every_section.yaml").read_text(encoding="utf-8")
Level = Callable[[PlannedCell], float]


def by(factor: str, *values: str) -> Level:
    """A level more for each of the values; 0 for any other."""
    levels = {value: float(place) for place, value in enumerate(values)}
    return lambda cell: levels.get(cell.factors[factor], 0.0)


def by_method(*methods: str) -> Level:
    return by("method", *methods)


by_eta = by("eta", "50", "75")


def plant(preset: str, kind: str, level: Level, effect: float, seeds: int = 5) -> Params:
    """Cells of one kind: a level more is `effect` more, in every metric, with noise of 0.01."""
    yaml = YAML()
    content = yaml.load(EVERY_SECTION if preset in (EVERY, "two-tuners") else presets.text(preset))
    sweep = content["sweep"]
    if preset == "two-tuners":
        sweep["tuners"] = ["prompt", "lora"]
    sweep.update(etas=[50, 75], tune_at=[50, 75] if sweep["train"] else [])
    yaml.dump(content, Path("params.yaml"))
    p = params.load()
    noise = np.random.default_rng(7)
    for cell in plan(p):
        if is_unprotected(cell.factors["eta"]):
            if kind in ATTACKED and cell.kind == kind:
                synthetic.write_cell(cell)  # where every attack is above its baseline
        elif cell.kind == kind:
            write(cell, 0.5 + effect * level(cell) + noise.normal(0, 0.01, seeds))
    return p


def write(cell: PlannedCell, values: Any) -> None:
    of_author = ("accuracy_author", "empirical_privacy_author")
    names = ("accuracy", "accuracy_protected", "empirical_privacy", *of_author)
    seeds = [
        {"seed": k, "metrics": dict.fromkeys(names, float(value)), "curves": {}}
        for k, value in enumerate(values)
    ]
    metrics = {name: summary(list(map(float, values))) for name in names}
    synthetic.write_cell(cell, seeds=seeds, metrics=metrics)


def keep(cell: PlannedCell, right: NDArray[np.bool_], task: str = "") -> None:
    """Write a tuned cell, and what its seeds' models say of each text, (seeds, texts)."""
    write(cell, right.mean(axis=1))
    names = [f"{task}{n}" for n in range(right.shape[1])]
    logits = np.stack([right, ~right], axis=2).astype(np.float64)
    found = Predictions(names, np.zeros(len(names), np.int64), logits)
    predictions.write(cell.predictions, {"test": found})


def of(p: Params, name: str) -> PaperClaim:
    return next(claim for claim in claims(reader.load(p)) if claim.name == name)
