"""The cells that an experiment consists of, as a function of its params."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rapt.params import Params

# Kinds of cells that tune a backbone, those that attack, and all kinds.
TUNED = ("train", "denoise", "study")
ATTACKED = ("invert", "infer", "recognize", "membership")
KINDS = (*TUNED, *ATTACKED)
# The factors that a cell's name is joined from, in the order of its matrix in dvc.yaml.
NAMED_BY = {
    "train": ("task", "backbone", "tuner", "method", "eta"),
    "denoise": ("task", "backbone", "tuner", "method", "eta", "denoiser"),
    "invert": ("attack", "task", "method", "eta"),
    "infer": ("attack", "task", "method", "eta"),
    "recognize": ("attack", "task", "method", "eta"),
    "membership": ("attack", "task", "backbone", "tuner", "method", "eta"),
}
# The stages of dvc.yaml whose cells are not named by their kind.
KIND_OF = {"invert-channel": "invert"}


@dataclass(frozen=True)
class PlannedCell:
    """One cell: what it varies, where its result lies, and what runs it."""

    kind: str
    cell: str
    factors: dict[str, str]
    stage: str

    @property
    def path(self) -> Path:
        """Where the cell's JSON lies once it has run."""
        return Path("reports/cells", self.kind, f"{self.cell}.json")

    @property
    def command(self) -> str:
        """What runs this cell and everything that it needs."""
        return f"dvc repro {self.stage}@{self.cell}"


def plan(params: Params) -> list[PlannedCell]:
    """Every cell of the grid and every study, in the order of params.yaml."""
    sweep = params.sweep
    tuned = (sweep.train, sweep.backbones, sweep.tuners, sweep.methods, sweep.etas)
    before = {
        "train": tuned,
        "denoise": (
            *(sweep.train, sweep.backbones, sweep.tuners),
            *(sweep.channels, sweep.etas, sweep.denoisers),
        ),
    }
    after = {
        "invert": (sweep.inversions, sweep.tasks, sweep.methods, sweep.etas),
        "invert-channel": (sweep.channel_inversions, sweep.tasks, sweep.channels, sweep.etas),
        "infer": (sweep.inferences, sweep.infer, sweep.methods, sweep.etas),
        "recognize": (sweep.recognitions, sweep.recognize, sweep.methods, sweep.etas),
        "membership": (sweep.memberships, *tuned),
    }
    studies = [
        PlannedCell("study", name, {**study.model_dump(), "study": name}, "study")
        for name, study in params.studies.items()
    ]
    return [*_grid(before, params.embedding), *studies, *_grid(after, params.embedding)]


def sorted_etas(etas: list[str]) -> list[str]:
    """From the most private to no privatization."""
    return sorted(etas, key=float)


def is_unprotected(eta: str) -> bool:
    """Whether this η means no privatization at all."""
    return math.isinf(float(eta))


def _grid(axes: Mapping[str, tuple[list[str], ...]], embedding: str) -> Iterator[PlannedCell]:
    """The cells of some stages, each with the lists whose product it runs."""
    for stage, lists in axes.items():
        kind = KIND_OF.get(stage, stage)
        for values in product(*lists):
            factors = dict(zip(NAMED_BY[kind], values, strict=True))
            name = "-".join(values)
            yield PlannedCell(kind, name, {**factors, "embedding": embedding}, stage)
