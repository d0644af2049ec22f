"""The results behind the report: the planned cells, and the outputs that exist so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from rapt import paths
from rapt.grid import (
    ATTACKED,
    KINDS,
    LOCAL,
    PUBLIC_LABELS,
    PlannedCell,
    is_unprotected,
    level,
    plan,
    public_labels,
    released,
    releases,
    sorted_etas,
    synthetic,
)
from rapt.params import Params
from rapt.results import predictions
from rapt.results.cells import CellResult, Metric
from rapt.results.predictions import Predictions, Successes
from rapt.utils import files

Json = dict[str, Any]
UNPROTECTED = "unprotected"


@dataclass(frozen=True)
class ReadCell:
    """A planned cell and its result, which is None if the cell has not run."""

    plan: PlannedCell
    content: CellResult | None

    @classmethod
    def read(cls, plan: PlannedCell) -> ReadCell:
        """Read a cell's file, if it is there."""
        content = _read(plan.path)
        return cls(plan, CellResult.model_validate(content) if content else None)

    @property
    def factors(self) -> dict[str, str]:
        """The cell's factors, as planned."""
        return self.plan.factors

    @property
    def label(self) -> str:
        """The method, with the denoiser if there is one."""
        return label(self.factors["method"], self.factors.get("denoiser"))

    @property
    def protection(self) -> str:
        """The release's protection: `unprotected`, `not run`, or that of its statement."""
        if self.content:
            return self.content.protection
        return UNPROTECTED if is_unprotected(self.factors["eta"]) else "not run"

    @cached_property
    def predictions(self) -> dict[str, Predictions]:
        """The scores of texts that its models were not fitted to, by split; empty if unknown."""
        path = self.plan.predictions
        return predictions.read(path) if self.content and path.is_file() else {}

    @cached_property
    def successes(self) -> dict[str, Successes]:
        """The successes of an attack on each text, by metric; empty if unknown."""
        path = self.plan.predictions
        return predictions.read_successes(path) if self.content and path.is_file() else {}

    def metric(self, name: str) -> Metric | None:
        """Return one metric over the seeds; None if the cell has not run or has none."""
        return self.content.metrics.get(name) if self.content else None

    def baseline(self, name: str) -> float | None:
        """Return the score of a trivial answer; None if the cell has not run or has none."""
        return self.content.baselines.get(name) if self.content else None

    def upper_bound(self, name: str) -> float | None:
        """Return a metric's upper bound, if one is known."""
        return self.content.upper_bounds.get(name) if self.content else None

    def by_seed(self, metric: str) -> dict[int, float]:
        """Return one metric by seed; empty if the cell has none, as accuracy of written texts."""
        seeds = self.content.seeds if self.content else []
        return {seed.seed: seed.metrics[metric] for seed in seeds if metric in seed.metrics}

    def curves(self) -> dict[str, list[list[float]]]:
        """Return each curve by name: a list for each seed, with one value for each epoch."""
        seeds = self.content.seeds if self.content else []
        names = list(dict.fromkeys(name for seed in seeds for name in seed.curves))
        return {name: [s.curves[name] for s in seeds if name in s.curves] for name in names}


@dataclass(frozen=True)
class Results:
    """All results that exist, in the order of params.yaml."""

    params: Params
    cells: tuple[ReadCell, ...]
    params_text: str = ""
    raw_gates: dict[str, Json | None] = field(default_factory=dict)
    private_gates: dict[str, Json | None] = field(default_factory=dict)
    calibrations: dict[str, Json | None] = field(default_factory=dict)
    levels: dict[str, list[Json]] = field(default_factory=dict)
    geometries: dict[str, Json | None] = field(default_factory=dict)
    channels: dict[str, Json | None] = field(default_factory=dict)
    layers: dict[str, Json | None] = field(default_factory=dict)
    examples: Json | None = None

    @cached_property
    def _on_clean_text(self) -> dict[str, ReadCell]:
        return {
            _attacked(cell.plan): cell
            for cell in self.cells
            if cell.plan.kind in ATTACKED and is_unprotected(cell.factors["eta"])
        }

    def of(self, kind: str, **factors: str) -> list[ReadCell]:
        """Return the planned cells of one kind with these factors."""
        wanted = factors.items()
        return [c for c in self.cells if c.plan.kind == kind and wanted <= c.factors.items()]

    def on_clean_text(self, cell: ReadCell) -> ReadCell | None:
        """Return the same attack on clean text; None: the sweep has none."""
        return self._on_clean_text.get(_attacked(cell.plan))

    def local(self, task: str) -> ReadCell | None:
        """Return what the user reaches on a task alone; None: it is not planned, or has not run."""
        return next((cell for cell in self.of(LOCAL, task=task) if cell.content), None)

    def missing(self) -> list[ReadCell]:
        """Return the planned cells that have not run."""
        return [cell for cell in self.cells if cell.content is None]

    def replaced(self, factors: dict[str, str]) -> float | None:
        """Return the share of protected words that a cell's release replaced, over the seeds."""
        gate = self.private_gates.get(release(factors))
        shares = [seed["share"] for seed in gate["replaced"]] if gate else []
        return fmean(shares) if shares else None  # a gate that fails counts nothing

    def eta_found(self, factors: dict[str, str]) -> str | None:
        """Return the number of η of a cell's release at a level; None: params.yaml has it."""
        gate = self.private_gates.get(release(factors))
        return str(gate["eta"]) if gate and level(factors["eta"]) is not None else None


def label(method: str, *added: str | None) -> str:
    """Return the label of a row or a line of results: a method, and what is added to it."""
    return " + ".join([method, *filter(None, added)])


def release(factors: dict[str, str]) -> str:
    """Return the folder of a cell's release in data/private, and of its gate in reports/gates."""
    if "study" in factors:
        return f"studies/{factors['study']}"
    return f"{factors['task']}/{released(factors['method'], factors['eta'])}"


def planned(params: Params) -> list[PlannedCell]:
    """Return every cell of the grid, every study, and what public labels make of releases."""
    return [*plan(params), *public_labels(params)]


def prune(params: Params) -> list[Path]:
    """Delete the cell files outside the plan, such as those of an η that was removed."""
    kept, kinds = {cell.path for cell in planned(params)}, (*KINDS, PUBLIC_LABELS)
    found = (path for kind in kinds for path in (paths.CELLS / kind).rglob("*.json"))
    outside = sorted(path for path in found if path not in kept)
    for path in outside:
        path.unlink()
    return outside


def load(params: Params) -> Results:
    """Load the planned cells, gates, statistics and examples that exist."""
    sweep = params.sweep
    gated = [f"{task}/{name}" for task in sweep.tasks for name, *_ in releases(params)]
    gated += [f"{task}/{name}" for task in sweep.train for name, *_ in synthetic(params)]
    gated += [f"studies/{name}" for name in params.studies]
    channels = [
        f"{embedding}/{method}-{eta}"
        for embedding in sweep.embeddings
        for method in sweep.channels
        for eta in sorted_etas(sweep.etas)
    ]
    layers = [
        "-".join(names)
        for names in product(sweep.train, sweep.backbones, sweep.tuners, sweep.layers)
    ]
    return Results(
        params=params,
        params_text=paths.PARAMS.read_text(),
        cells=tuple(ReadCell.read(cell) for cell in planned(params)),
        raw_gates={task: _read(paths.raw_gate(task)) for task in sweep.tasks},
        private_gates={name: _read(paths.private_gate(name)) for name in gated},
        calibrations={name: _read(paths.calibration(name)) for name in sweep.embeddings},
        levels={name: _read(paths.levels(name)) or [] for name in sweep.embeddings},
        geometries={name: _read(paths.geometry(name)) for name in sweep.embeddings},
        channels={name: _read(paths.channel_statistics(*name.split("/"))) for name in channels},
        layers={name: _read(paths.layers(name)) for name in layers},
        examples=_read(paths.EXAMPLES),
    )


def _attacked(cell: PlannedCell) -> str:
    """Return a key of an attack cell: its kind and all factors except method and η."""
    varied = ("method", "eta")
    return " ".join([cell.kind, *(v for n, v in sorted(cell.factors.items()) if n not in varied)])


def _read(path: Path) -> Any:
    return files.read_json(path) if path.is_file() else None
