"""Execution of a plan: each stage is a Prefect task, started in the schedule's order."""

from __future__ import annotations

import queue
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture

from pipelines.artifacts import Bar
from pipelines.progress import console, show, show_end, span
from pipelines.schedule import Lease, Schedule
from pipelines.slots import BACKOFF, CommandError, Slots, Stopped
from rapt.utils.errors import RaptError

SECONDS_BETWEEN_UPDATES = 5
CTRL_C = "Ctrl-C"
INTERRUPTED = "interrupted: nothing here has changed; what is finished stays in the cache"


class Stays(Exception):
    """The stage's inputs turned out not to be allowed to leave this machine."""


def _may_pass(_: Task[Any, Any], __: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.data, CommandError) and state.data.may_pass


# A task that starts again if its failure may not recur: a stage killed, or out of memory.
retried = task(
    retries=len(BACKOFF),
    retry_delay_seconds=list(BACKOFF),
    retry_condition_fn=_may_pass,
    cache_policy=NO_CACHE,
    persist_result=False,
)


def run(schedule: Schedule, slots: Slots) -> None:
    """Run the schedule's stages and then collect their outs, inside a Prefect flow.

    Raises:
        RaptError: stages failed, files were edited meanwhile, or the user pressed Ctrl-C.
    """
    with _Events(slots, schedule) as events:
        _walk(schedule, slots, events)
        if events.interrupts:
            raise Stopped(INTERRUPTED)
        if schedule.failed:
            raise Stopped(
                f"failed: {', '.join(schedule.failed)}; "
                f"skipped, as they depend on these: {len(schedule.skipped)}"
            )
        with console.status("collecting from the cache"):
            _collect(slots, events)


class _Events:
    """Events that the main thread waits for: the end of futures, and the user's Ctrl-C."""

    def __init__(self, slots: Slots, schedule: Schedule) -> None:
        """Receive nothing before `with`."""
        self.interrupts = 0
        self._slots, self._schedule = slots, schedule
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        """Take over Ctrl-C: its exception would leave Prefect's state incomplete."""
        self._before = signal.signal(signal.SIGINT, lambda *_: self._heard.put(CTRL_C))
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handler of Ctrl-C."""
        signal.signal(signal.SIGINT, self._before)

    def watch(self, name: str, future: PrefectFuture[Any]) -> None:
        """Report the end of `future` as an event called `name`."""
        future.add_done_callback(lambda _: self._heard.put(name))

    def next(self) -> str | None:
        """Wait for a future to end and return its name; None: Ctrl-C, or a timeout."""
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
            self._slots.stop()
        else:
            console.print("waiting for what runs; Ctrl-C again stops it")
            self._slots.finish()


def _walk(schedule: Schedule, slots: Slots, events: _Events) -> None:
    """Run every stage whose dependencies succeeded, in the schedule's order."""
    bar = Bar(schedule)
    took: dict[str, float | None] = {}
    futures: dict[str, PrefectFuture[bool]] = {}

    @retried
    def run(stage: str, lease: Lease) -> bool:
        """Reproduce a stage; return False if it may not leave this machine."""
        try:
            seconds = slots.reproduce(lease)
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

    run = run.with_options(name="stage", task_run_name="{stage}")
    while True:
        while lease := schedule.next():
            stage = lease.stage
            upstream = [futures[name] for name in stage.upstream]
            future = run.submit(stage.name, lease, return_state=False, wait_for=upstream)
            futures[stage.name] = future
            events.watch(stage.name, future)
        bar.show()
        if not schedule.running:
            break
        if name := events.next():
            _end(schedule, name, futures[name], took)
    schedule.durations.save()


def _collect(slots: Slots, events: _Events) -> None:
    """Assemble in another thread, so that this one receives Ctrl-C."""
    collect = task(name="collect", cache_policy=NO_CACHE, persist_result=False)(slots.assemble)
    future = collect.submit(return_state=False)
    events.watch("collect", future)
    while events.next() is None:
        pass
    future.result()


def _end(
    schedule: Schedule, name: str, future: PrefectFuture[bool], took: Mapping[str, float | None]
) -> None:
    """Report the end of a stage's task to the schedule and the user, with its error if any."""
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
