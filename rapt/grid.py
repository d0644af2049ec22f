"""The cells of an experiment, as a function of its params."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from rapt import paths
from rapt.param_types import LEVEL, level

if TYPE_CHECKING:  # which asks here whether two cells have one name
    from rapt.params import Params

# Kinds of cells that tune a backbone, those that attack, and all kinds. A `score` cell scores the
# texts that the `train` cell of the same name generated.
TUNED = ("train", "denoise", "study")
SCORE = "score"
ATTACKED = ("invert", "infer", "recognize", "link", "membership")
KINDS = (*TUNED, SCORE, "local", *ATTACKED)
# The baseline: unprivatized words, in one release per task.
CLEAN, UNPROTECTED_ETA = "clean", "inf"
# The other one: nothing is sent. At η 0 no two texts could be told apart.
LOCAL, NOTHING_SENT_ETA = "local", "0"
# A provider who learns from public labelled text, and needs no label of the user's: the kind of its
# cells, and their tuner. No tuner of params.yaml can have this name.
PUBLIC_LABELS, PUBLIC_LABELS_STAGE = "public_labels", "public-labels"
# The factors of each kind of cell besides method and η, in the order of its name.
FACTORS_BEFORE_METHOD = {
    "train": ("task", "backbone", "tuner"),
    "denoise": ("task", "backbone", "tuner"),
    "score": ("task", "backbone", "tuner"),
    "invert": ("attack", "task"),
    "infer": ("attack", "task"),
    "recognize": ("attack", "task"),
    "link": ("attack", "task"),
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
    def predictions(self) -> Path:
        """The path of its result of each text; `membership` keeps none."""
        return paths.predictions(self.kind, self.cell)

    @property
    def command(self) -> str:
        """The command that runs this cell and everything that it needs."""
        return f"dvc repro {self.stage}@{self.key}"


def plan(params: Params) -> list[PlannedCell]:
    """Return every cell of the grid and every study by kind, clean text before methods."""
    s, embedding = params.sweep, {"embedding": params.embedding}
    tuned, probed = (s.train, s.backbones, s.tuners), (s.train, s.backbones, s.probes)
    full, attacked = (s.methods, s.tune_at), (s.attacked, s.etas)
    grid: list[tuple[str, str, tuple[list[str], ...], tuple[list[str], ...]]] = [
        # Stage, its kind, lists of the factors before the method, lists from the method on.
        ("train", "train", tuned, full),
        ("probe", "train", probed, attacked),
        ("train-synthetic", "train", tuned, (s.synthesizers, s.epsilons)),
        ("score", SCORE, (s.score, s.backbones, s.tuners), full),
        ("denoise", "denoise", tuned, (s.channels, s.tune_at, s.denoisers)),
        ("invert", "invert", (s.inversions, s.invert), attacked),
        ("invert-channel", "invert", (s.channel_inversions, s.invert), (s.channels, s.etas)),
        ("infer", "infer", (s.inferences, s.infer), attacked),
        ("recognize", "recognize", (s.recognitions, s.recognize), attacked),
        ("link", "link", (s.linkages, s.tasks), attacked),
        ("membership", "membership", (s.memberships, *tuned), full),
    ]
    cells = []
    for stage, kind, before, after in grid:
        names = (*FACTORS_BEFORE_METHOD[kind], "method", "eta", "denoiser")
        for first in product(*before):
            # The channel of clean text is the identity: there is nothing to invert or denoise. And
            # what is tuned on synthetic text is compared with `train` on clean text.
            if stage not in ("invert-channel", "denoise", "train-synthetic"):
                key, clean = "-".join(first), (*first, CLEAN, UNPROTECTED_ETA)
                factors = dict(zip(names, clean, strict=False)) | embedding
                cells.append(PlannedCell(kind, f"{key}-{CLEAN}", factors, f"{stage}-{CLEAN}", key))
            for rest in product(*after):
                factors = dict(zip(names, (*first, *rest), strict=False)) | embedding
                name = "-".join((*first, *rest))
                cells.append(PlannedCell(kind, name, factors, stage, name))
    nothing_sent = {"method": LOCAL, "eta": NOTHING_SENT_ETA} | embedding
    cells += [PlannedCell(LOCAL, t, {"task": t} | nothing_sent, LOCAL, t) for t in s.train]
    cells += [
        PlannedCell("study", name, {**study.model_dump(), "study": name}, "study", name)
        for name, study in params.studies.items()
    ]
    return sorted(cells, key=lambda cell: KINDS.index(cell.kind))


def released(method: str, eta: str) -> str:
    """Return a release's name: METHOD-ETA, SYNTHESIZER-EPSILON, or `clean`."""
    return method if method == CLEAN else f"{method}-{eta}"


def releases(params: Params) -> list[tuple[str, str, str]]:
    """Return name, method and η of each task's releases in the sweep."""
    grid = product(params.sweep.methods, params.sweep.etas)
    return [(released(*of), *of) for of in [(CLEAN, UNPROTECTED_ETA), *grid]]


def synthetic(params: Params) -> list[tuple[str, str, str]]:
    """Return name, synthesizer and ε of the synthetic releases of each task that is tuned on."""
    grid = product(params.sweep.synthesizers, params.sweep.epsilons)
    return [(released(*of), *of) for of in grid]


def public_labels(params: Params) -> list[PlannedCell]:
    """Return a cell for each release of each private task that has a public one, clean text first.

    One stage scores all releases of a task, as the provider fits one model. So the cells of a task
    lie in one folder. The factor `backbone` names the public task.
    """
    return [
        PlannedCell(
            PUBLIC_LABELS,
            f"{task}/{name}",
            {
                **{"task": task, "backbone": public, "tuner": PUBLIC_LABELS},
                **{"method": method, "eta": eta, "embedding": params.embedding},
            },
            PUBLIC_LABELS_STAGE,
            task,
        )
        for task, public in params.public_labels.items()
        for name, method, eta in releases(params)
    ]


def split_release_name(release: str) -> tuple[str, str]:
    """Return method and η of a release's name, METHOD-ETA."""
    found = re.fullmatch(rf"(.+?)-({LEVEL.pattern}|[\d.]+(?:e-\d+)?|[^-]+)", release)
    assert found
    return found[1], found[2]


def privacy_rank(eta: str) -> float:
    """Sort key, most private first; levels such as replaced-50 sort before numbers."""
    given = level(eta)
    if given is None:
        return float(eta)
    return -given.share if given.measure == "replaced" else given.share - 1


def sorted_etas(etas: list[str]) -> list[str]:
    """Sort from the most private to no privatization."""
    return sorted(etas, key=privacy_rank)


def is_unprotected(eta: str) -> bool:
    """Whether this η means no privatization at all."""
    return math.isinf(privacy_rank(eta))
