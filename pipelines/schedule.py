"""The schedule: which stage runs next, and how long the rest will take."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path
from statistics import median

from pipelines.graph import Plan, Stage, downstream
from rapt import paths
from rapt.utils import files

# Seconds by kind in the demo on two cores, used until a stage of that kind has run here.
EXPECTED: dict[str, float] = files.read_json(Path(__file__).with_name("seconds.json"))


class Durations:
    """How long each stage took when it last ran, and how long others took now beside that.

    What ran before may have been other rows: texts of three times as many words take every stage
    that reads them three times as long. So each estimate is multiplied by the pace of this flow.
    """

    def __init__(self, root: Path) -> None:
        """Read what earlier flows measured."""
        self._path = root / paths.STATE / "seconds.json"
        self._seconds: dict[str, float] = {}
        if self._path.exists():
            self._seconds = files.read_json(self._path)
        self._earlier, self._paces = dict(self._seconds), dict[str, list[tuple[float, float]]]()

    def add(self, stage: Stage, seconds: float) -> None:
        """Record how long `stage` took, wherever it ran."""
        if expected := self._before(stage):
            self._paces.setdefault(stage.kind, []).append((seconds, expected))
        self._seconds[stage.name] = round(seconds, 1)

    def save(self) -> None:
        """Save the durations for the next flow."""
        files.write_json(self._path, self._seconds)

    def of(self, stage: Stage) -> float | None:
        """Estimate seconds: those before, at the pace of its kind in this flow, or of all that ran.

        None: no stage of its kind has ever run.
        """
        if stage.name in self._seconds.keys() - self._earlier.keys():
            return self._seconds[stage.name]
        before = self._before(stage)
        if before is None:
            return _of_kind(stage, self._seconds)
        paces = self._paces.get(stage.kind) or list(chain(*self._paces.values()))
        taken, expected = (sum(values) for values in zip(*paces, strict=True)) if paces else (1, 1)
        return before * taken / expected

    def _before(self, stage: Stage) -> float | None:
        """Return the seconds of the last flow, else its kind's median there, else EXPECTED."""
        last = self._earlier.get(stage.name) or _of_kind(stage, self._earlier)
        return EXPECTED.get(stage.kind) if last is None else last


def _of_kind(stage: Stage, seconds: Mapping[str, float]) -> float | None:
    """Return the median over the stages of the same kind; None: there is none."""
    of_kind = [s for name, s in seconds.items() if name.startswith(f"{stage.kind}@")]
    return median(of_kind) if of_kind else None


@dataclass(frozen=True)
class Lease:
    """A stage that may start: on another machine, or here, perhaps on a GPU.

    Attributes:
        gpu: its id; None: the stage sees no GPU.
        sharing: how many stages may have that GPU meanwhile, this one included.
    """

    stage: Stage
    gpu: str | None
    elsewhere: bool = False
    sharing: int = 1


@dataclass(frozen=True)
class Remaining:
    """Remaining seconds; `at_least` if a stage is elsewhere, overran, or of unknown duration."""

    seconds: float
    at_least: bool


class Schedule:
    """A plan's stages in the order of their dependencies, the longest first."""

    def __init__(
        self,
        plan: Plan,
        slots: int,
        gpus: Sequence[str],
        durations: Durations,
        elsewhere: int = 0,
        per_gpu: int = 1,
    ) -> None:
        """Start with nothing running.

        Up to `slots` stages run here at once, and up to `per_gpu` of them on each of `gpus`. Up to
        `elsewhere` of the provider's stages run on other machines; if that is 0, they run here.
        """
        self.plan, self.durations = plan, durations
        self.running: dict[str, tuple[Lease, float]] = {}
        self.done: set[str] = set()
        self.failed: list[str] = []
        self._slots, self._elsewhere, self._gpus = slots, elsewhere, list(gpus)
        self._per_gpu = per_gpu
        self._order = TopologicalSorter({stage.name: stage.upstream for stage in plan.values()})
        self._order.prepare()
        self._ready: list[Stage] = []
        self._staying: set[str] = set()
        # Stages for which a shared GPU had too little memory.
        self._alone: set[str] = set()
        self._stopped = False

    def next(self) -> Lease | None:
        """Lease the longest stage that can start now; None: none can, or the flow stops."""
        if self._stopped:
            return None
        self._ready += [self.plan[name] for name in self._order.get_ready()]
        away = sum(self._leaves(self.plan[name]) for name in self.running)
        here = len(self.running) - away
        can_start = [
            stage
            for stage in self._ready
            if (away < self._elsewhere if self._leaves(stage) else here < self._slots)
            and (not self._wants(stage) or self._gpu_for(stage))
        ]
        if not can_start:
            return None
        # A stage of unknown duration may be long: it goes first, and its kind is then known.
        stage = max(can_start, key=lambda stage: self._seconds(stage, unknown=math.inf))
        gpu = self._gpu_for(stage) if self._wants(stage) else None
        self._ready.remove(stage)
        sharing = 1 if stage.name in self._alone else self._per_gpu
        lease = Lease(stage, gpu, self._leaves(stage), sharing)
        self.running[stage.name] = lease, time.monotonic()
        return lease

    def end(self, name: str, *, success: bool) -> None:
        """Free a stage's slot and GPU, and record whether it succeeded."""
        self.running.pop(name)
        if success:
            self.done.add(name)
            self._order.done(name)
        else:
            self.failed.append(name)

    def keep(self, name: str) -> None:
        """Take back a lease for another machine: the stage may not leave and will run here."""
        self._staying.add(name)
        self._take_back(name)

    def give_whole(self, name: str) -> None:
        """Take back a lease of a shared GPU: the stage will have one for itself."""
        self._alone.add(name)
        self._take_back(name)

    def _take_back(self, name: str) -> None:
        lease, _ = self.running.pop(name)
        self._ready.append(lease.stage)

    def stop(self) -> None:
        """Lease no further stages."""
        self._stopped = True

    @property
    def skipped(self) -> set[str]:
        """The stages that cannot run, as they depend on failed ones."""
        return downstream(self.plan, set(self.failed)) - set(self.failed)

    def remaining(self) -> Remaining:
        """Estimate the remaining time: the longest chain of stages, or the load per slot or GPU.

        A pool's number of machines is unknown, so stages that run there count only in the chain.
        """
        now = time.monotonic()
        lost = self.done | self.skipped | set(self.failed)
        left = {name: self._seconds(s) for name, s in self.plan.items() if name not in lost}
        for name, (_, started) in self.running.items():
            left[name] -= now - started
        overran = any(left[name] < 0 for name in self.running)
        left = {name: max(0.0, seconds) for name, seconds in left.items()}
        chains: dict[str, float] = {}
        for name in TopologicalSorter({n: self.plan[n].upstream for n in left}).static_order():
            if name in left:
                before = [chains[up] for up in self.plan[name].upstream if up in chains]
                chains[name] = left[name] + max(before, default=0.0)
        rest = [self.plan[name] for name in left]
        here = sum(left[stage.name] for stage in rest if not self._leaves(stage))
        on_gpus = sum(left[stage.name] for stage in rest if self._wants(stage))
        return Remaining(
            max(
                max(chains.values(), default=0.0),
                here / self._slots,
                on_gpus / max(1, len(self._gpus) * self._per_gpu),
            ),
            at_least=overran
            or any(self._leaves(stage) or self.durations.of(stage) is None for stage in rest),
        )

    def _leaves(self, stage: Stage) -> bool:
        provided = self._elsewhere > 0 and stage.side == "provider"
        return provided and stage.name not in self._staying

    def _gpu_for(self, stage: Stage) -> str | None:
        """Return the GPU with the fewest stages that has room for another, if there is one.

        While a stage waits for a whole GPU none is shared anew, so that one becomes free.
        """
        held: dict[str, list[str]] = {gpu: [] for gpu in self._gpus}
        for name, (lease, _) in self.running.items():
            if lease.gpu:
                held[lease.gpu].append(name)
        waiting = self._alone.intersection(ready.name for ready in self._ready)
        if waiting and stage.name not in waiting:
            return None
        stages = {
            gpu: len(names)
            for gpu, names in held.items()
            if not names
            or (not waiting and len(names) < self._per_gpu and not self._alone.intersection(names))
        }
        return min(stages, key=lambda gpu: stages[gpu], default=None)

    def _wants(self, stage: Stage) -> bool:
        return stage.gpu and bool(self._gpus) and not self._leaves(stage)

    def _seconds(self, stage: Stage, unknown: float = 0.0) -> float:
        seconds = self.durations.of(stage)
        return unknown if seconds is None else seconds
