"""Writing one cell of the experiment: its JSON, and beside it what varies between equal runs."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rapt import paths
from rapt.utils import files

SCHEMA = 1


class Cell:
    """A cell being computed: `write` makes its files (docs/data.md)."""

    def __init__(self, kind: str, name: str, factors: Mapping[str, str]) -> None:
        """Start the clock."""
        self.kind, self.name, self.factors = kind, name, dict(factors)
        self._started = time.monotonic()

    def write(
        self,
        *,
        protection: str,
        seeds: Sequence[Mapping[str, Any]],
        floors: Mapping[str, float],
        counts: Mapping[str, int],
        ceilings: Mapping[str, float] | None = None,
        intervals: Mapping[str, tuple[float, float]] | None = None,
        device: str = "cpu",
    ) -> None:
        """Write the cell and its sidecar.

        Args:
            protection: of the release: `d_X-privacy` or `unprotected`.
            seeds: for each seed its number, metrics and curves.
            floors: what an answer without looking reaches.
            counts: rows or words behind the figures.
            ceilings: what no attack of the kind exceeds, where that is known.
            intervals: of metrics whose 95 % confidence interval is known.
            device: what computed it.
        """
        metrics = _summaries([seed["metrics"] for seed in seeds])
        for name, (low, high) in (intervals or {}).items():
            metrics[name] |= {"low": low, "high": high}
        content = {
            "schema": SCHEMA,
            "kind": self.kind,
            "cell": self.name,
            "factors": self.factors,
            "protection": protection,
            "metrics": metrics,
            "floors": dict(floors),
            "ceilings": dict(ceilings or {}),
            "counts": dict(counts),
            "seeds": list(seeds),
        }
        files.write_json(paths.cell(self.kind, self.name), content)
        files.write_json(
            files.home() / f".rapt/runs/{self.kind}/{self.name}.json",
            {
                "seconds": round(time.monotonic() - self._started, 1),
                "device": device,
                "machine": machine(),
                "host_cores": os.cpu_count(),
                "commit": _commit(),
                "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            },
        )


def _summaries(metrics: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float | int | None]]:
    return {name: summary([seed[name] for seed in metrics]) for name in sorted(metrics[0])}


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


def _commit() -> str | None:
    if given := os.environ.get("RAPT_COMMIT"):  # whose files these are, on another machine
        return given
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return head.stdout.strip() or None
