"""Which stage runs next, and how long what remains will take."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median

from pipelines.graph import Plan, Stage, downstream
from rapt.utils import files

# By kind, as the demo's take on two cores: what stands for a kind until one of it has run here.
EXPECTED: dict[str, float] = files.read_json(Path(__file__).with_name("seconds.json"))


class Durations:
    """How long each stage took when it last ran."""

    def __init__(self, root: Path) -> None:
        """Read what earlier flows measured."""
        self._path = root / ".rapt/seconds.json"
        self._seconds: dict[str, float] = {}
        if self._path.exists():
            self._seconds = files.read_json(self._path)

    def add(self, stage: Stage, seconds: float) -> None:
        """Remember that `stage` took so long, wherever it ran."""
        self._seconds[stage.name] = round(seconds, 1)

    def save(self) -> None:
        """Keep them for the next flow."""
        files.write_json(self._path, self._seconds)

    def of(self, stage: Stage) -> float | None:
        """As last time, else as others of its kind, else as expected of these; None: not known."""
        if stage.name in self._seconds:
            return self._seconds[stage.name]
        start = f"{stage.kind}@"
        of_kind = [s for name, s in self._seconds.items() if name.startswith(start)]
        return median(of_kind) if of_kind else EXPECTED.get(stage.kind)


@dataclass(frozen=True)
class Lease:
    """A stage that may start: elsewhere, or here with a GPU that is its own meanwhile."""

    stage: Stage
    gpu: str | None
    elsewhere: bool = False


@dataclass(frozen=True)
class Remaining:
    """How many seconds are left; `at_least`, where stages never ran yet or run elsewhere."""

    seconds: float
    at_least: bool


class Schedule:
    """The stages of a plan in the order of their dependencies, the longest first."""

    def __init__(
        self,
        plan: Plan,
        slots: int,
        gpus: Sequence[str],
        durations: Durations,
        elsewhere: int = 0,
    ) -> None:
        """Nothing runs yet.

        Args:
            plan: the stages.
            slots: how many run here at once.
            gpus: ids of GPUs, each for one stage at a time; none: every stage runs without.
            durations: of earlier runs.
            elsewhere: how many of the provider's stages run on other machines at once; 0: they
                run here.
        """
        self.plan, self.durations = plan, durations
        self.running: dict[str, tuple[Lease, float]] = {}
        self.done: set[str] = set()
        self.failed: list[str] = []
        self._slots, self._elsewhere, self._gpus = slots, elsewhere, list(gpus)
        self._free_gpus = list(gpus)
        self._order = TopologicalSorter({stage.name: stage.upstream for stage in plan.values()})
        self._order.prepare()
        self._ready: list[Stage] = []
        self._staying: set[str] = set()
        self._stopped = False

    def next(self) -> Lease | None:
        """Lease out the longest stage that can start now; None: wait for one that runs."""
        if self._stopped:
            return None
        self._ready += [self.plan[name] for name in self._order.get_ready()]
        away = sum(self._leaves(self.plan[name]) for name in self.running)
        here = len(self.running) - away
        can_start = [
            stage
            for stage in self._ready
            if (away < self._elsewhere if self._leaves(stage) else here < self._slots)
            and (self._free_gpus or not self._wants(stage))
        ]
        if not can_start:
            return None
        # One that never ran may be long: it goes first, and its kind is then known.
        stage = max(can_start, key=lambda stage: self._seconds(stage, unknown=math.inf))
        self._ready.remove(stage)
        gpu = self._free_gpus.pop(0) if self._wants(stage) else None
        lease = Lease(stage, gpu, self._leaves(stage))
        self.running[stage.name] = lease, time.monotonic()
        return lease

    def end(self, name: str, *, success: bool) -> None:
        """Give back what a stage held."""
        lease, _ = self.running.pop(name)
        if lease.gpu:
            self._free_gpus.append(lease.gpu)
        if success:
            self.done.add(name)
            self._order.done(name)
        else:
            self.failed.append(name)

    def keep(self, name: str) -> None:
        """Take back a lease for elsewhere whose stage may not leave: it waits for its turn here."""
        lease, _ = self.running.pop(name)
        self._staying.add(name)
        self._ready.append(lease.stage)

    def stop(self) -> None:
        """Lease out nothing more."""
        self._stopped = True

    @property
    def skipped(self) -> set[str]:
        """What cannot run, as it depends on what failed."""
        return downstream(self.plan, set(self.failed)) - set(self.failed)

    def remaining(self) -> Remaining:
        """As long as the longest chain of stages, or as all together on what there is to run on.

        Nobody knows how many machines a pool has: of what runs there only the chain counts.
        """
        now = time.monotonic()
        lost = self.done | self.skipped | set(self.failed)
        left = {name: self._seconds(s) for name, s in self.plan.items() if name not in lost}
        for name, (_, started) in self.running.items():
            left[name] = max(0.0, left[name] - (now - started))
        chain: dict[str, float] = {}
        for name in TopologicalSorter({n: self.plan[n].upstream for n in left}).static_order():
            if name in left:
                before = [chain[up] for up in self.plan[name].upstream if up in chain]
                chain[name] = left[name] + max(before, default=0.0)
        rest = [self.plan[name] for name in left]
        here = sum(left[stage.name] for stage in rest if not self._leaves(stage))
        on_gpus = sum(left[stage.name] for stage in rest if self._wants(stage))
        return Remaining(
            max(
                max(chain.values(), default=0.0),
                here / self._slots,
                on_gpus / max(1, len(self._gpus)),
            ),
            at_least=any(self._leaves(stage) or self.durations.of(stage) is None for stage in rest),
        )

    def _leaves(self, stage: Stage) -> bool:
        provided = self._elsewhere > 0 and stage.side == "provider"
        return provided and stage.name not in self._staying

    def _wants(self, stage: Stage) -> bool:
        return stage.gpu and bool(self._gpus) and not self._leaves(stage)

    def _seconds(self, stage: Stage, unknown: float = 0.0) -> float:
        seconds = self.durations.of(stage)
        return unknown if seconds is None else seconds
