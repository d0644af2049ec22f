"""The walk over a plan: each stage a Prefect task, as the schedule says, until all have ended."""

from __future__ import annotations

import queue
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol, Self

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture

from pipelines.artifacts import Bars
from pipelines.progress import console, show, show_end, span
from pipelines.schedule import Lease, Schedule
from pipelines.slots import BACKOFF, CommandError, Stopped
from rapt.utils.errors import RaptError

SECONDS_BETWEEN_UPDATES = 5
CTRL_C = "Ctrl-C"
INTERRUPTED = "interrupted: nothing here has changed; what is finished stays in the cache"


class Stays(Exception):
    """What a stage takes may not leave this machine, as it turned out."""


class Runner(Protocol):
    """What runs stages."""

    def reproduce(self, lease: Lease) -> float | None:
        """Reproduce a stage; return the seconds that it ran, None where it was made before.

        Raises:
            Stays: the lease is for elsewhere, and the stage may not leave.
        """

    def assemble(self) -> None:
        """Collect what the stages made in the main workspace."""

    def finish(self) -> None:
        """Let what runs end, and start nothing more."""

    def stop(self) -> None:
        """Stop everything that runs, and start nothing more."""


def _may_pass(_: Task[Any, Any], __: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.data, CommandError) and state.data.may_pass


stage_task = task(
    name="stage",
    task_run_name="{stage}",
    retries=len(BACKOFF),
    retry_delay_seconds=list(BACKOFF),
    retry_condition_fn=_may_pass,
    cache_policy=NO_CACHE,
    persist_result=False,
)


def run(schedule: Schedule, runner: Runner) -> None:
    """Run what the schedule plans, then collect it, inside a flow.

    Raises:
        RaptError: stages failed, files were edited meanwhile, or the user said Ctrl-C.
    """
    with _Events(runner, schedule) as events:
        _walk(schedule, runner, events)
        if events.interrupts:
            raise Stopped(INTERRUPTED)
        if schedule.failed:
            raise Stopped(
                f"failed: {', '.join(schedule.failed)}; "
                f"skipped, as they depend on these: {len(schedule.skipped)}"
            )
        with console.status("collecting from the cache"):
            _collect(runner, events)


class _Events:
    """What the main thread waits for: futures that end, and the user's Ctrl-C."""

    def __init__(self, runner: Runner, schedule: Schedule) -> None:
        """Nothing is heard before `with`."""
        self.interrupts = 0
        self._runner, self._schedule = runner, schedule
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        """Take Ctrl-C over: an exception out of nowhere would leave Prefect's state undone."""
        self._before = signal.signal(signal.SIGINT, lambda *_: self._heard.put(CTRL_C))
        return self

    def __exit__(self, *_: object) -> None:
        """Give Ctrl-C back."""
        signal.signal(signal.SIGINT, self._before)

    def watch(self, name: str, future: PrefectFuture[Any]) -> None:
        """Hear of the end of `future`."""
        future.add_done_callback(lambda _: self._heard.put(name))

    def next(self) -> str | None:
        """The name of what has ended; None: something else was heard, or nothing for a while."""
        with suppress(queue.Empty):
            heard = self._heard.get(timeout=SECONDS_BETWEEN_UPDATES)
            if heard != CTRL_C:
                return heard
            self._interrupt()
        return None

    def _interrupt(self) -> None:
        self.interrupts += 1
        self._schedule.stop()
        if self.interrupts > 1:
            self._runner.stop()
        else:
            console.print("waiting for what runs; Ctrl-C again stops it")
            self._runner.finish()


def _walk(schedule: Schedule, runner: Runner, events: _Events) -> None:
    """Run every stage whose dependencies succeeded, as the schedule says."""
    bars = Bars(schedule)
    took: dict[str, float | None] = {}
    futures: dict[str, PrefectFuture[bool]] = {}

    @stage_task
    def run(stage: str, lease: Lease) -> bool:
        """False: it may not run where it was leased to."""
        try:
            seconds = runner.reproduce(lease)
        except Stays:
            return False
        except CommandError as error:
            if error.may_pass:
                console.print(f"{error}, which may pass", style="yellow")
            raise
        took[stage] = seconds
        if seconds is not None:
            schedule.durations.add(lease.stage, seconds)
        return True

    while True:
        while lease := schedule.next():
            stage = lease.stage
            upstream = [futures[name] for name in stage.upstream]
            future = run.submit(stage.name, lease, return_state=False, wait_for=upstream)
            futures[stage.name] = future
            events.watch(stage.name, future)
        bars.show()
        if not schedule.running:
            break
        if name := events.next():
            _end(schedule, name, futures[name], took)
    schedule.durations.save()


def _collect(runner: Runner, events: _Events) -> None:
    """Assemble in a thread, so that this one hears Ctrl-C."""
    future = task(name="collect", cache_policy=NO_CACHE, persist_result=False)(
        runner.assemble
    ).submit(return_state=False)
    events.watch("collect", future)
    while events.next() is None:
        pass
    future.result()


def _end(
    schedule: Schedule, name: str, future: PrefectFuture[bool], took: Mapping[str, float | None]
) -> None:
    """Tell the schedule and the user how a stage's task ended, and of an error why."""
    future.wait()  # else `state` asks the server, which lags behind
    result = future.state.result(raise_on_failure=False)
    if isinstance(result, CommandError):
        show(result)
    elif isinstance(result, RaptError) and not isinstance(result, Stopped):
        console.print(str(result), style="red", markup=False)
    if result is False:
        schedule.keep(name)
        return
    success = future.state.is_completed()
    schedule.end(name, success=success)
    seconds = took.get(name)
    ended = "cached" if seconds is None else span(seconds)
    show_end(schedule, name, ended if success else "failed")
