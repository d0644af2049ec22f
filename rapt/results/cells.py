"""A cell's JSON (docs/data.md), typed, and beside it what varies between equal runs."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from rapt import paths
from rapt.utils import files

SCHEMA = 2


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, validate_by_name=True)


class SeedResult(_Part):
    """The result of one seed; a curve has one value per epoch, of membership per rate."""

    seed: int
    metrics: dict[str, float]
    curves: dict[str, list[float]] = {}


class Metric(_Part):
    """A metric over the seeds of a cell; `sd` is None for one seed.

    `low` and `high` are its 95 % confidence interval, if the cell has one.
    """

    mean: float
    sd: float | None
    n: int
    low: float | None = None
    high: float | None = None

    @model_serializer(mode="wrap")
    def _without_no_interval(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = dump(self)
        return {name: x for name, x in content.items() if x is not None or name == "sd"}


class CellResult(_Part):
    """The result of a cell over its seeds.

    Attributes:
        protection: of the release, as its statement says.
        training: of a private training the epsilon and delta that it spends on a text that it
            tunes on, and what these rest on; empty: it promises nothing.
        baselines: by metric the score of a trivial answer, as the most frequent class.
        upper_bounds: by metric what no attack of the kind exceeds, where that is known.
        counts: rows or words behind the figures.
    """

    version: int = Field(SCHEMA, alias="schema")
    kind: str
    cell: str
    factors: dict[str, str]
    protection: str
    training: dict[str, float] = {}
    metrics: dict[str, Metric]
    baselines: dict[str, float]
    # Cells of earlier versions have none.
    upper_bounds: dict[str, float] = {}
    counts: dict[str, int]
    seeds: list[SeedResult]


class Cell:
    """A cell being computed: `write` makes its files."""

    def __init__(self, kind: str, name: str, factors: Mapping[str, str]) -> None:
        """Start the clock."""
        self.kind, self.name, self.factors = kind, name, dict(factors)
        self._started = time.monotonic()

    def write(
        self,
        *,
        protection: str,
        seeds: Sequence[SeedResult],
        baselines: Mapping[str, float],
        counts: Mapping[str, int],
        upper_bounds: Mapping[str, float] | None = None,
        training: Mapping[str, float] | None = None,
        intervals: Mapping[str, tuple[float, float]] | None = None,
        device: str = "cpu",
    ) -> None:
        """Write the cell, as in `CellResult`, and its sidecar, which names the device.

        Metrics may have a 95 % confidence interval.
        """
        result = CellResult(
            kind=self.kind,
            cell=self.name,
            factors=self.factors,
            protection=protection,
            training=dict(training or {}),
            metrics=metrics_over(seeds, intervals or {}),
            baselines=dict(baselines),
            upper_bounds=dict(upper_bounds or {}),
            counts=dict(counts),
            seeds=list(seeds),
        )
        content = result.model_dump(by_alias=True, exclude=None if training else {"training"})
        files.write_json(paths.cell(self.kind, self.name), content)
        files.write_json(
            files.home() / paths.run(self.kind, self.name),
            {
                "seconds": round(time.monotonic() - self._started, 1),
                "device": device,
                "machine": machine(),
                "host_cores": os.cpu_count(),
                # Of a stage on another machine its files' commit is given.
                "commit": os.environ.get("RAPT_COMMIT") or git("rev-parse", "HEAD"),
                "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            },
        )


def metrics_over(
    seeds: Sequence[SeedResult], intervals: Mapping[str, tuple[float, float]]
) -> dict[str, Metric]:
    """Summarize each metric that all seeds have, with its interval if there is one."""
    found = {}
    for name in [m for m in seeds[0].metrics if all(m in seed.metrics for seed in seeds)]:
        low, high = intervals.get(name, (None, None))
        values = summary([seed.metrics[name] for seed in seeds])
        found[name] = Metric.model_validate(values | {"low": low, "high": high})
    return found


def summary(values: Sequence[float]) -> dict[str, float | int | None]:
    """Mean, sample standard deviation (None for one value) and number of values."""
    sd = stdev(values) if len(values) > 1 else None
    return {"mean": fmean(values), "sd": sd, "n": len(values)}


def machine() -> str:
    """System, architecture and, where Linux tells it, the processor."""
    found = [f"{platform.system()} {platform.machine()}"]
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return ", ".join(found + names[:1])


def sidecar(kind: str, cell: str) -> dict[str, Any]:
    """Load the facts on a cell that vary between equal runs, as its device; empty if unknown."""
    path = files.home() / paths.run(kind, cell)
    return files.read_json(path) if path.is_file() else {}


def git(*arguments: str) -> str | None:
    """Return what git says of the working folder; None: the machine has no git, or no commit."""
    try:
        said = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return said.stdout.strip() or None
