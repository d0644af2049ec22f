"""`rapt plan`: the cells of a params file and their estimated cost, before anything runs."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.costs import Estimate
from rapt.grid import KINDS, PlannedCell
from rapt.params import Params
from rapt.paths import STATE
from rapt.speed import Speed, known, measured
from rapt.utils import files
from rapt.utils.device import has_gpu
from rapt.utils.errors import RaptError, not_allowed
from rapt.utils.process import cores

# Assumed useful TFLOP/s of a GPU; BERT on an A100 reaches more, MiniLM less.
TFLOPS = 10.0
# DVC rewrites dvc.lock after every stage, which took 0.58 s a cell with 602 cells.
MOST_CELLS, SECONDS_PER_CELL = 250, 0.58
# Start time of a stage, DVC's part included, as a share of that of a process that tunes. It is the
# mean over the demo's stages, on two cores of an EPYC.
STARTED = 0.5
MULTIPLES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}
FACTORS = ("task", "backbone", "tuner")


def preview(
    what: str | None,
    *,
    rows: Sequence[str] | None = None,
    parameters: Sequence[str] | None = None,
    tflops: float | None = None,
    as_json: bool = False,
) -> None:
    """Print cells, runs, hours and disk space; see `rapt plan --help` for the options.

    Raises:
        RaptError: there is no such preset or file, it is invalid, or a number cannot be read.
    """
    if tflops is not None and not tflops > 0:
        raise RaptError(f"--tflops: got {tflops:g}, expected a number above 0.")
    p = _params(what)
    estimate = Estimate(
        p, _given("rows", rows or (), p.tasks), _given("parameters", parameters or (), p.backbones)
    )
    speed = measured(estimate.width)
    if tflops is not None:
        rate, basis = tflops * 1e12, "given"
    elif has_gpu():
        rate, basis = speed.of(estimate.width), "measured on this machine's"
    else:
        rate, basis = TFLOPS * 1e12, "assumed, small models reach less; --tflops takes yours"
    if as_json:
        print(json.dumps(_as_json(estimate, rate, speed), indent=1))
        return
    console = Console(highlight=False)
    for line in _summary(what or "params.yaml", estimate, speed):
        console.print(line, soft_wrap=True)
    if estimate.tuned:
        console.print(_table(estimate, rate))
    hours = _sum(map(estimate.flops, estimate.tuned), lambda flops: _about(flops / rate, estimate))
    of_gpu = f"{_number(rate / 1e12)} useful TFLOP/s ({basis})"
    console.print(f"Tuning on one GPU: {hours}, at {of_gpu}.", soft_wrap=True)
    for line in _remarks(estimate, speed):
        console.print(line, soft_wrap=True)


def listed() -> None:
    """Print every preset with its cells, and its time here once this machine was measured."""
    speed, console = known(), Console(highlight=False)
    for name in presets.names():
        estimate = Estimate(_params(name))
        seconds = sum(_times(estimate, speed)) if speed else float("nan")
        time = "-" if isnan(seconds) else _time(seconds)
        console.print(f"[bold]{name}[/]  {len(estimate.cells)} cells, {time}")
        console.print(Padding(presets.summary(name), (0, 0, 0, 2)), markup=False)
    if speed is None:
        console.print("Minutes on this machine: `rapt plan` measures it in ten seconds.")


def _params(what: str | None) -> Params:
    if what is None or what.endswith((".yaml", ".yml")):
        return params.load(what or "params.yaml")
    return params.validate(YAML(typ="safe").load(presets.text(what)))


def _given(key: str, values: Iterable[str], names: Iterable[str]) -> dict[str, float]:
    """Parse numbers by name; '' is the key of a number without one."""
    given = {}
    for value in values:
        name, _, number = value.rpartition("=")
        if name and name not in names:
            raise RaptError(not_allowed(f"--{key}", name, names))
        if not (found := re.fullmatch(r"(\d+\.?\d*)([KMB]?)", number.upper())):
            raise RaptError(f"--{key}: got {value!r}, expected a number, as 3B, 67349 or NAME=3B.")
        given[name] = float(found[1]) * MULTIPLES[found[2]]
    return given


def _times(estimate: Estimate, speed: Speed) -> list[float]:
    """Estimate the seconds of starting processes, searching and tuning, on this machine.

    A cell's seeds run in parallel, in processes of a core each; on a GPU one after the other.
    """
    work, lanes = estimate.work(), min(cores(), estimate.params.seeds)
    pace = _pace(estimate, speed)
    return [
        pace * speed.start * (work.stages * STARTED / lanes + len(estimate.tuned)),
        pace * work.search / speed.product / lanes,
        pace * work.tuning / speed.of(estimate.width) / (1 if has_gpu() else lanes),
    ]


def _pace(estimate: Estimate, speed: Speed) -> float:
    """Return how many times as long as estimated the cells took that were tuned here before.

    A flow gives each a core: its seeds ran one after the other.
    """
    path = files.home() / STATE / "seconds.json"
    took = files.read_json(path) if path.is_file() else {}
    ran = [cell for cell in estimate.tuned if f"{cell.stage}@{cell.key}" in took]
    flops = sum(map(estimate.flops, ran))
    if not ran or isnan(flops):
        return 1.0
    expected = speed.start * len(ran) + flops / speed.of(estimate.width)
    return float(sum(took[f"{cell.stage}@{cell.key}"] for cell in ran)) / expected


def _as_json(estimate: Estimate, gpu: float, speed: Speed) -> dict[str, Any]:
    """Return cells and costs; `gpu` is useful flops a second, `seconds_here` is of all stages."""
    costs = {
        "gpu_seconds": sum(map(estimate.flops, estimate.tuned)) / gpu,
        "seconds_here": sum(_times(estimate, speed)),
        "words_with_noise": estimate.words(),
    }
    sizes = {
        "adapters": sum(map(estimate.weights, estimate.tuned)),
        "releases": estimate.releases(),
        "tables": estimate.tables(),
        "checkpoints": estimate.checkpoints(),
    }
    return {
        "cells": [{"kind": c.kind, "cell": c.cell, "command": c.command} for c in estimate.cells],
        "seeds": estimate.params.seeds,
        "training_runs": len(estimate.tuned) * estimate.params.seeds,
        **{name: None if isnan(cost) else cost for name, cost in costs.items()},
        "bytes": {name: None if isnan(size) else size for name, size in sizes.items()},
    }


def _summary(name: str, estimate: Estimate, speed: Speed) -> Iterator[str]:
    """Yield what runs, and its time and disk space on this machine."""
    count = Counter(cell.kind for cell in estimate.cells)
    kinds = ", ".join(f"{count[kind]} {kind}" for kind in KINDS if count[kind])
    seeds = estimate.params.seeds
    runs = len(estimate.tuned) * seeds
    yield f"{name}: {len(estimate.cells)} cells ({kinds}), {seeds} seeds: {runs:,} training runs"
    time = _about(sum(_times(estimate, speed)), estimate)
    adapters = sum(map(estimate.weights, estimate.tuned))
    disk = adapters + estimate.releases() + estimate.tables()
    where = "this GPU and CPU" if has_gpu() else "this CPU"
    yield f"{time[0].upper()}{time[1:]} on {where} ({cores()} cores), {_size(disk)} on disk."


def _table(estimate: Estimate, rate: float) -> Table:
    """Tabulate the tuning by task, backbone and tuner."""
    table = Table(*FACTORS)
    for name in ("cells", "GPU", "adapters"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, ...], list[PlannedCell]] = defaultdict(list)
    for cell in estimate.tuned:
        groups[tuple(cell.factors[name] for name in FACTORS)].append(cell)
    for key, cells in groups.items():
        time = _about(sum(map(estimate.flops, cells)) / rate, estimate, key[0])
        table.add_row(*key, str(len(cells)), time, _size(sum(map(estimate.weights, cells))))
    return table


def _remarks(estimate: Estimate, speed: Speed) -> Iterator[str]:
    """Yield the parts of the time and of the disk space, and what is not known yet."""
    times = _times(estimate, speed)
    if not isnan(sum(times)):
        start, search, tuning = map(_time, times)
        yield (
            f"Here {estimate.stages()} stages take {start} to start, searching nearest words "
            f"{search}, tuning {tuning}. Measured: {speed.start:.1f} s to start one that tunes, "
            f"{_number(speed.product / 1e9)} GFLOP/s a core in matrix products, "
            f"{_number(speed.of(estimate.width) / 1e9)} in training."
        )
    yield (
        f"Disk: adapters {_sum(map(estimate.weights, estimate.tuned), _size)}; "
        f"releases {_size(estimate.releases())}; embedding tables {_size(estimate.tables())}. "
        "Twice that where the disk has no reflinks, as DVC's cache then holds copies. "
        "While the largest cell trains, its checkpoints take up to "
        f"{_size(estimate.checkpoints())}. Backbones come on top."
    )
    if rows := [name for name, texts in estimate.texts.items() if isnan(texts.rows)]:
        yield f"Unknown until downloaded: the rows of {', '.join(rows)}; give --rows {rows[0]}=N."
    if estimate.guessed:
        yield (
            f"Not here yet: the texts of {', '.join(estimate.guessed)}; taken as long as "
            f"train.max_tokens allows, {estimate.params.train.max_tokens} tokens."
        )
    if names := estimate.missing:
        yield f"Not here yet: {', '.join(names)}; give --parameters {names[0]}=3B or the like."
    if (cells := len(estimate.cells)) > MOST_CELLS:
        yield (
            f"More than {MOST_CELLS} cells: DVC writes dvc.lock anew for each, about "
            f"{_time(cells * SECONDS_PER_CELL)} in all each time that dvc repro looks at them; "
            "better in two."
        )


def _sum(costs: Iterable[float], text: Callable[[float], str]) -> str:
    """Format the sum over cells, as far as it is known."""
    found = list(costs)
    known = [cost for cost in found if not isnan(cost)]
    if not known:
        return "unknown" if found else "none"
    missing = len(found) - len(known)
    return text(sum(known)) + (f", and {missing} cells unknown" if missing else "")


def _about(seconds: float, estimate: Estimate, task: str | None = None) -> str:
    """Format a time, an upper bound where texts of the task, or of any, were guessed."""
    if isnan(seconds):
        return "an unknown time"
    if seconds < 60:
        return "less than a minute"
    is_most = task in estimate.guessed if task else estimate.guessed
    return f"{'up to ' if is_most else ''}about {_time(seconds)}"


def _time(seconds: float) -> str:
    value, unit = (seconds / 60, "min") if seconds < 5400 else (seconds / 3600, "h")
    return f"{_number(value)} {unit}"


def _size(size: float) -> str:
    if isnan(size):
        return "unknown"
    if size < 1e6:
        return "less than 1 MB"
    unit, name = next(u for u in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")) if size >= u[0])
    return f"about {_number(size / unit)} {name}"


def _number(value: float) -> str:
    """Format with two significant digits, as an estimate has no more."""
    return f"{float(f'{value:.2g}'):,.12g}"
