"""`rapt plan`: the cells of a params file and their estimated cost, before anything runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.costs import Estimate, Work, total
from rapt.grid import KINDS, PlannedCell
from rapt.params import Params
from rapt.speed import Speed, known, measured
from rapt.utils.device import has_gpu
from rapt.utils.errors import RaptError, not_allowed
from rapt.utils.process import cores

# Assumed useful TFLOP/s of a GPU; BERT on an A100 reaches more, MiniLM less.
TFLOPS = 10.0
# DVC rewrites dvc.lock after every stage, which took 0.58 s a cell with 602 cells.
MOST_CELLS, SECONDS_PER_CELL = 250, 0.58
# Start time of a stage, DVC's part included, as a share of that of a process that tunes: the mean
# over the demo's stages, on two cores of an EPYC.
STARTED = 0.5
MULTIPLES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}


def preview(
    what: str | None,
    *,
    rows: Sequence[str],
    parameters: Sequence[str],
    tflops: float | None,
    as_json: bool = False,
) -> None:
    """Print cells, runs, hours and disk space, with the basis of each estimate.

    Args:
        what: a preset or a params file; None: params.yaml.
        rows: training rows of tasks that are not here, such as `sst2=67349`, or `67349` for all.
        parameters: sizes of backbones that are not here, such as `qwen=3B`, or `3B` for all.
        tflops: useful TFLOP/s of a GPU; None: measured here, else assumed.
        as_json: print JSON for programs, with null for unknown values.

    Raises:
        RaptError: there is no such preset or file, it is invalid, or a number cannot be read.
    """
    if tflops is not None and not tflops > 0:
        raise RaptError(f"--tflops: got {tflops:g}, expected a number above 0.")
    p = _params(what)
    estimate = Estimate(
        p, _given("rows", rows, p.tasks), _given("parameters", parameters, p.backbones)
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
    console = Console()
    console.print(_cells(what or "params.yaml", estimate), soft_wrap=True, highlight=False)
    console.print(_here(estimate, speed), soft_wrap=True, highlight=False)
    if estimate.tuned:
        console.print(_table(estimate, rate))
    for line in [
        f"Tuning on one GPU: {_hours(estimate, rate)}, at {_number(rate / 1e12)} useful TFLOP/s "
        f"({basis}).",
        *_parts(estimate, speed),
        _disk(estimate),
        *_unknown(estimate),
        *_many(estimate),
        "Rough: 6 flops for each parameter and token with full fine-tuning, 4 where the backbone "
        "is frozen, and 2 once for a linear probe. Padding, attention over long texts and what "
        "attacks learn come on top.",
    ]:
        console.print(line, soft_wrap=True, highlight=False)


def listed() -> None:
    """Print every preset with its cells, and its time here once this machine was measured."""
    speed, console = known(), Console(highlight=False)
    for name in presets.names():
        estimate = Estimate(_params(name))
        seconds = _seconds(estimate, speed) if speed else None
        time = "-" if seconds is None else _time(seconds)
        console.print(f"[bold]{name}[/]  {len(estimate.cells)} cells, {time}")
        console.print(Padding(presets.summary(name), (0, 0, 0, 2)), markup=False)
    if speed is None:
        console.print("Minutes on this machine: `rapt plan` measures it in ten seconds.")


def _times(work: Work, estimate: Estimate, speed: Speed) -> list[float]:
    """Estimate the seconds of starting processes, searching and tuning, on this machine.

    A cell's seeds run in parallel, in processes of a core each; on a GPU one after the other.
    """
    lanes = min(cores(), estimate.params.seeds)
    return [
        speed.start * (work.stages * STARTED / lanes + len(estimate.tuned)),
        work.search / speed.product / lanes,
        work.tuning / speed.of(estimate.width) / (1 if has_gpu() else lanes),
    ]


def _seconds(estimate: Estimate, speed: Speed) -> float | None:
    work = estimate.work()
    return None if work is None else sum(_times(work, estimate, speed))


def _here(estimate: Estimate, speed: Speed) -> str:
    """Format the summary: time and disk space on this machine."""
    seconds = _seconds(estimate, speed)
    time = "An unknown time" if seconds is None else _about(seconds, bool(estimate.guessed))
    disk = total((_adapters(estimate), estimate.releases(), estimate.tables()))
    where = f"this GPU and CPU ({cores()} cores)" if has_gpu() else f"this CPU ({cores()} cores)"
    return f"{time[0].upper()}{time[1:]} on {where}, {_size(disk)} on disk."


def _parts(estimate: Estimate, speed: Speed) -> Iterator[str]:
    """Break the estimated time on this machine down into starting, searching and tuning."""
    if work := estimate.work():
        start, search, tuning = (_time(part) for part in _times(work, estimate, speed))
        yield (
            f"Here {work.stages} stages take {start} to start, searching nearest words "
            f"{search}, tuning {tuning}. Measured: {speed.start:.1f} s to start one that tunes, "
            f"{_number(speed.product / 1e9)} GFLOP/s a core in matrix products, "
            f"{_number(speed.of(estimate.width) / 1e9)} in training."
        )


def _as_json(estimate: Estimate, gpu: float, speed: Speed) -> dict[str, Any]:
    """Return cells and costs; `gpu` is useful flops a second, `seconds_here` is of all stages."""
    flops = total(map(estimate.flops, estimate.tuned))
    return {
        "cells": [{"kind": c.kind, "cell": c.cell, "command": c.command} for c in estimate.cells],
        "seeds": estimate.params.seeds,
        "training_runs": len(estimate.tuned) * estimate.params.seeds,
        "gpu_seconds": None if flops is None else flops / gpu,
        "seconds_here": _seconds(estimate, speed),
        "words_with_noise": estimate.words(noisy=True),
        "bytes": {
            "adapters": total(map(estimate.weights, estimate.tuned)),
            "releases": estimate.releases(),
            "tables": estimate.tables(),
            "checkpoints": estimate.checkpoints(),
        },
    }


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


def _cells(name: str, estimate: Estimate) -> str:
    count = Counter(cell.kind for cell in estimate.cells)
    kinds = ", ".join(f"{count[kind]} {kind}" for kind in KINDS if count[kind])
    seeds = estimate.params.seeds
    runs = len(estimate.tuned) * seeds
    return f"{name}: {len(estimate.cells)} cells ({kinds}), {seeds} seeds: {runs:,} training runs"


def _table(estimate: Estimate, rate: float) -> Table:
    """Tabulate the tuning by task, backbone and tuner."""
    table = Table()
    for name in ("task", "backbone", "tuner"):
        table.add_column(name)
    for name in ("cells", "GPU", "adapters"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, ...], list[PlannedCell]] = {}
    for cell in estimate.tuned:
        key = tuple(cell.factors[name] for name in ("task", "backbone", "tuner"))
        groups.setdefault(key, []).append(cell)
    for key, cells in groups.items():
        flops, weights = total(map(estimate.flops, cells)), total(map(estimate.weights, cells))
        most = key[0] in estimate.guessed
        time = "unknown" if flops is None else _about(flops / rate, most)
        table.add_row(*key, str(len(cells)), time, _size(weights))
    return table


def _hours(estimate: Estimate, rate: float) -> str:
    """Format the time of all tuning, as far as it is known."""
    most = any(cell.factors["task"] in estimate.guessed for cell in estimate.tuned)
    return _sum(map(estimate.flops, estimate.tuned), lambda flops: _about(flops / rate, most))


def _sum(values: Iterable[float | None], text: Callable[[float], str]) -> str:
    """Format the sum over cells, as far as it is known."""
    found = list(values)
    known = [value for value in found if value is not None]
    if not known:
        return "unknown" if found else "none"
    missing = len(found) - len(known)
    return text(sum(known)) + (f", and {missing} cells unknown" if missing else "")


def _adapters(estimate: Estimate) -> float | None:
    return total(map(estimate.weights, estimate.tuned))


def _disk(estimate: Estimate) -> str:
    adapters = _sum(map(estimate.weights, estimate.tuned), _size)
    return (
        f"Disk: adapters {adapters}; releases {_size(estimate.releases())}; "
        f"embedding tables {_size(estimate.tables())}; twice that where the disk has no "
        "reflinks, as DVC's cache then holds copies; checkpoints of the largest cell up to "
        f"{_size(estimate.checkpoints())} while it trains; backbones come on top."
    )


def _unknown(estimate: Estimate) -> Iterator[str]:
    rows = [name for name, texts in estimate.texts.items() if texts.rows is None]
    if rows:
        yield f"Unknown until downloaded: the rows of {', '.join(rows)}; give --rows {rows[0]}=N."
    if estimate.guessed:
        yield (
            f"Not here yet: the texts of {', '.join(estimate.guessed)}; taken as long as "
            f"train.max_tokens allows, {estimate.params.train.max_tokens} tokens."
        )
    models = [name for name, model in estimate.models.items() if model is None]
    if models:
        yield f"Not here yet: {', '.join(models)}; give --parameters {models[0]}=3B or the like."


def _many(estimate: Estimate) -> Iterator[str]:
    if (cells := len(estimate.cells)) > MOST_CELLS:
        yield (
            f"More than {MOST_CELLS} cells: DVC writes dvc.lock anew for each, about "
            f"{_time(cells * SECONDS_PER_CELL)} in all each time that dvc repro looks at them; "
            "better in two."
        )


def _about(seconds: float, most: bool) -> str:
    if seconds < 60:
        return "less than a minute"
    return f"{'up to ' if most else ''}about {_time(seconds)}"


def _time(seconds: float) -> str:
    if seconds < 5400:
        return f"{_number(seconds / 60)} min"
    return f"{_number(seconds / 3600)} h"


def _size(size: float | None) -> str:
    if size is None:
        return "unknown"
    if size < 1e6:
        return "less than 1 MB"
    for unit, most in (("MB", 1e9), ("GB", 1e12)):
        if size < most:
            return f"about {_number(size / most * 1e3)} {unit}"
    return f"about {_number(size / 1e12)} TB"


def _number(value: float) -> str:
    """Format with two significant digits, as an estimate has no more."""
    return f"{float(f'{value:.2g}'):,.12g}"
