"""The cells of an experiment, as a function of its params."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from rapt import paths

if TYPE_CHECKING:  # which asks here whether two cells have one name
    from rapt.params import Params

# Kinds of cells that tune a backbone, those that attack, and all kinds.
TUNED = ("train", "denoise", "study")
ATTACKED = ("invert", "infer", "recognize", "membership")
KINDS = (*TUNED, *ATTACKED)
# The baseline: unprivatized words, in one release per task.
CLEAN, UNPROTECTED_ETA = "clean", "inf"
# The factors of each kind of cell besides method and η, in the order of its name.
BEFORE = {
    "train": ("task", "backbone", "tuner"),
    "denoise": ("task", "backbone", "tuner"),
    "invert": ("attack", "task"),
    "infer": ("attack", "task"),
    "recognize": ("attack", "task"),
    "membership": ("attack", "task", "backbone", "tuner"),
}


@dataclass(frozen=True)
class PlannedCell:
    """One cell: its factors, the path of its result, and the stage that runs it."""

    kind: str
    cell: str
    factors: dict[str, str]
    # Its stage in dvc.yaml, and the key of the cell there.
    stage: str
    key: str

    @property
    def path(self) -> Path:
        """The path of the cell's JSON, which exists once the cell has run."""
        return paths.cell(self.kind, self.cell)

    @property
    def command(self) -> str:
        """The command that runs this cell and everything that it needs."""
        return f"dvc repro {self.stage}@{self.key}"


def plan(params: Params) -> list[PlannedCell]:
    """Return every cell of the grid and every study by kind, clean text before methods."""
    s, embedding = params.sweep, {"embedding": params.embedding}
    tuned, probed = (s.train, s.backbones, s.tuners), (s.train, s.backbones, s.probes)
    grid: list[tuple[str, str, tuple[Sequence[str], ...], Sequence[str], Sequence[str]]] = [
        # Stage, its kind, lists of the factors before the method, methods, η.
        ("train", "train", tuned, s.methods, s.tune_at),
        ("probe", "train", probed, s.attacked, s.etas),
        ("invert", "invert", (s.inversions, s.invert), s.attacked, s.etas),
        ("invert-channel", "invert", (s.channel_inversions, s.invert), s.channels, s.etas),
        ("infer", "infer", (s.inferences, s.infer), s.attacked, s.etas),
        ("recognize", "recognize", (s.recognitions, s.recognize), s.attacked, s.etas),
        ("membership", "membership", (s.memberships, *tuned), s.methods, s.tune_at),
    ]
    cells = []
    for stage, kind, lists, methods, etas in grid:
        for before in product(*lists):
            named = dict(zip(BEFORE[kind], before, strict=True))
            # The channel of clean text is the identity: there is nothing to invert.
            if stage != "invert-channel":
                clean = {"method": CLEAN, "eta": UNPROTECTED_ETA, **embedding}
                key = "-".join(before)
                cells.append(
                    PlannedCell(kind, f"{key}-{CLEAN}", {**named, **clean}, f"{stage}-{CLEAN}", key)
                )
            for method, eta in product(methods, etas):
                name = "-".join((*before, method, eta))
                factors = {**named, "method": method, "eta": eta, **embedding}
                cells.append(PlannedCell(kind, name, factors, stage, name))
    cells += _denoised(params)
    cells += [
        PlannedCell("study", name, {**study.model_dump(), "study": name}, "study", name)
        for name, study in params.studies.items()
    ]
    return sorted(cells, key=lambda cell: KINDS.index(cell.kind))


def _denoised(params: Params) -> Iterator[PlannedCell]:
    s = params.sweep
    names = (*BEFORE["denoise"], "method", "eta", "denoiser")
    for values in product(s.train, s.backbones, s.tuners, s.channels, s.tune_at, s.denoisers):
        factors = dict(zip(names, values, strict=True)) | {"embedding": params.embedding}
        yield PlannedCell("denoise", name := "-".join(values), factors, "denoise", name)


def released(method: str, eta: str) -> str:
    """Return a release's name: METHOD-ETA, or `clean`."""
    return method if method == CLEAN else f"{method}-{eta}"


def releases(params: Params) -> list[str]:
    """Return the names of each task's releases in the sweep."""
    grid = product(params.sweep.methods, params.sweep.etas)
    return [CLEAN, *(released(*names) for names in grid)]


def sorted_etas(etas: list[str]) -> list[str]:
    """Sort from the most private to no privatization."""
    return sorted(etas, key=float)


def is_unprotected(eta: str) -> bool:
    """Whether this η means no privatization at all."""
    return math.isinf(float(eta))
