"""`rapt plan`: what a params file would run and about what it would cost, before anyone pays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.costs import WORDS_PER_SECOND, Estimate, measured, total
from rapt.errors import RaptError, not_allowed
from rapt.params import Params
from rapt.plan import KINDS, PlannedCell

# Useful TFLOP/s of a GPU that has trained nothing here; BERT on an A100 reaches more, MiniLM less.
TFLOPS = 10.0
# DVC writes dvc.lock anew after every stage, which 602 cells made 0.58 s each.
MOST_CELLS, SECONDS_PER_CELL = 250, 0.58
MULTIPLES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}


def preview(
    what: str | None, *, rows: Sequence[str], parameters: Sequence[str], tflops: float | None
) -> None:
    """Print cells, runs, hours and disk, and what each estimate rests on.

    Args:
        what: a preset or a params file; None: params.yaml.
        rows: training rows of tasks that are not here, as `sst2=67349`, or `67349` for all.
        parameters: of backbones that are not here, as `qwen=3B`, or `3B` for all.
        tflops: useful TFLOP/s of a GPU; None: measured here, else assumed.

    Raises:
        RaptError: there is no such preset or file, it is not valid, or a number is none.
    """
    if tflops is not None and not tflops > 0:
        raise RaptError(f"--tflops: {tflops:g} given, allowed: above 0")
    p = _params(what)
    estimate = Estimate(
        p, _given("rows", rows, p.tasks), _given("parameters", parameters, p.backbones)
    )
    known = _measured()
    if tflops is not None:
        rate, basis = tflops * 1e12, "given"
    elif "gpu" in known:
        rate, basis = known["gpu"], "the median of what params.yaml's cells reached here"
    else:
        rate, basis = TFLOPS * 1e12, "assumed, small models reach less; --tflops takes yours"
    console = Console()
    console.print(_cells(what or "params.yaml", estimate), soft_wrap=True, highlight=False)
    if estimate.tuned:
        console.print(_table(estimate, rate))
    for line in [
        f"Tuning on one GPU: {_hours(estimate, rate)}, at {_number(rate / 1e12)} useful TFLOP/s "
        f"({basis}).",
        _on_cpu(estimate, known.get("cpu")),
        _privatizing(estimate),
        _disk(estimate),
        *_unknown(estimate),
        *_many(estimate),
        "Rough: 6 flops for each parameter and token with full fine-tuning, 4 where the backbone "
        "is frozen. Starting each run, padding, attention over long texts and scoring come on top.",
    ]:
        console.print(line, soft_wrap=True, highlight=False)


def _measured() -> dict[str, float]:
    """What the cells of params.yaml reached on this machine, where it is there and valid."""
    try:
        return measured(params.load())
    except RaptError:
        return {}


def _params(what: str | None) -> Params:
    if what is None or what.endswith((".yaml", ".yml")):
        return params.load(what or "params.yaml")
    return params.validate(YAML(typ="safe").load(presets.text(what)))


def _given(key: str, values: Iterable[str], names: Iterable[str]) -> dict[str, float]:
    """Numbers by name, '' for a number without one."""
    given = {}
    for value in values:
        name, _, number = value.rpartition("=")
        if name and name not in names:
            raise RaptError(not_allowed(f"--{key}", name, names))
        if not (found := re.fullmatch(r"(\d+\.?\d*)([KMB]?)", number.upper())):
            raise RaptError(f"--{key}: {value!r} given, allowed: 3B, 67349 or NAME=3B")
        given[name] = float(found[1]) * MULTIPLES[found[2]]
    return given


def _cells(name: str, estimate: Estimate) -> str:
    count = Counter(cell.kind for cell in estimate.cells)
    kinds = ", ".join(f"{count[kind]} {kind}" for kind in KINDS if count[kind])
    seeds = estimate.params.seeds
    runs = len(estimate.tuned) * seeds
    return f"{name}: {len(estimate.cells)} cells ({kinds}), {seeds} seeds: {runs:,} training runs"


def _table(estimate: Estimate, rate: float) -> Table:
    """The tuning, by task, backbone and tuner."""
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
    """The time of all the tuning, as far as it can be known."""
    most = any(cell.factors["task"] in estimate.guessed for cell in estimate.tuned)
    return _sum(map(estimate.flops, estimate.tuned), lambda flops: _about(flops / rate, most))


def _sum(values: Iterable[float | None], text: Callable[[float], str]) -> str:
    """The sum over cells, in words, as far as it is known."""
    found = list(values)
    known = [value for value in found if value is not None]
    if not known:
        return "unknown" if found else "none"
    missing = len(found) - len(known)
    return text(sum(known)) + (f", and {missing} cells unknown" if missing else "")


def _on_cpu(estimate: Estimate, rate: float | None) -> str:
    if rate is None:
        return "Tuning on this CPU: unknown, no cell of params.yaml has been trained on it."
    return (
        f"Tuning on this CPU: {_hours(estimate, rate)}, at the {_number(rate / 1e9)} GFLOP/s that "
        "params.yaml's cells reached on it."
    )


def _privatizing(estimate: Estimate) -> str:
    words = estimate.words(noisy=True)
    time = "unknown" if words is None else _about(words / WORDS_PER_SECOND, True)
    return (
        f"Privatizing the training splits on one core: {time}, at {WORDS_PER_SECOND:,} words a "
        "second (MiniLM's table) as if every word got noise."
    )


def _disk(estimate: Estimate) -> str:
    adapters = _sum(map(estimate.weights, estimate.tuned), _size)
    return (
        f"Disk: adapters {adapters}; releases {_size(estimate.releases())} of training splits; "
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
    """Two digits are all that an estimate has."""
    return f"{float(f'{value:.2g}'):,.12g}"
