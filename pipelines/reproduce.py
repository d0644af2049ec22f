"""Reproduce the DVC graph in parallel: `rapt flow --slots 2`.

Leaves the same bytes, dvc.lock included, as `dvc repro` alone. Every stage that is not up to
date is one Prefect task. It runs in a slot (see pipelines.slots), or on a work pool (see
pipelines.remote). If all succeed, one plain `dvc repro` in a further slot collects them from the
cache. If one fails, the stages that do not depend on it still run and stay cached, and dvc.lock
does not change. Ctrl-C once waits for the running stages, twice stops them.
"""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable
from contextlib import closing
from typing import Any, Literal, Self

from prefect import Task, flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines import graph, server
from pipelines.artifacts import Bar
from pipelines.progress import console, show, show_end, show_running, span
from pipelines.schedule import Durations, Lease, Schedule
from pipelines.served import CommandError
from pipelines.slots import BACKOFF, Slots, Stays, Stopped, gpus
from rapt.utils.errors import RaptError, described

CTRL_C = "Ctrl-C"
# Seconds without the end of a stage, after which a line says what runs.
QUIET = 60.0
# Of a stage: the seconds that it ran, None if it came from the cache, that it may not leave, or
# that it needs the whole of a GPU that it shared.
Outcome = float | None | Literal["stays", "crowded"]


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


def start(plan: graph.Plan, slots: Slots, finish: Callable[[], None], per_gpu: int = 1) -> None:
    """Run the stages of `plan`, collect what they made, and `finish`, as a Prefect flow.

    Up to `per_gpu` stages share a GPU.
    """
    pool = slots.ahead > 0
    begun = server.begin(pool=pool)  # its seconds pass while the slots are made
    runner = ThreadPoolTaskRunner(max_workers=slots.count + slots.ahead)  # type: ignore[var-annotated]

    @flow(name="reproduce", task_runner=runner)  # type: ignore[arg-type]
    def reproduce() -> None:
        # Closed here: Prefect waits for threads that wait for what runs, then a SIGTERM is the end.
        with closing(slots):
            durations = Durations(slots.root)
            _run(
                Schedule(plan, slots.count, gpus(), durations, slots.ahead, per_gpu),
                slots,
            )
        finish()

    with server.needed(), slots, server.running(begun, pool=pool):
        if slots.damaged:
            console.print(f"warning: {slots.damaged} damaged in DVC's cache: removed, made again")
        reproduce()


def _run(schedule: Schedule, slots: Slots) -> None:
    """Run the schedule's stages and then collect their outs, inside a Prefect flow."""
    with _Events(slots, schedule) as events:
        _run_stages(schedule, slots, events)
        if events.interrupts:
            raise Stopped
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

    def next(self) -> str:
        """Wait for a future to end and return its name; Ctrl-C stops what it has to meanwhile."""
        while (heard := self._wait()) == CTRL_C:
            self.interrupts += 1
            self._schedule.stop()
            if self.interrupts > 1:
                self._slots.stop()
            else:
                console.print("waiting for what runs; Ctrl-C again stops it")
                self._slots.finish()
        return heard

    def _wait(self) -> str:
        """Wait for an event, and say each minute what runs."""
        while True:
            try:
                return self._heard.get(timeout=QUIET)
            except queue.Empty:
                show_running(self._schedule)


def _run_stages(schedule: Schedule, slots: Slots, events: _Events) -> None:
    """Run every stage whose dependencies succeeded, in the schedule's order."""
    bar = Bar(schedule)
    futures: dict[str, PrefectFuture[Outcome]] = {}

    @retried
    def run(stage: str, lease: Lease) -> Outcome:
        try:
            return slots.reproduce(lease)
        except Stays:
            return "stays"
        except CommandError as error:
            if error.may_pass and lease.gpu and lease.sharing > 1:
                console.print(f"{error}, beside others on a GPU: again alone", style="yellow")
                return "crowded"
            if error.may_pass:
                console.print(f"{error}, which may pass", style="yellow")
            raise

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
        name = events.next()
        _end(schedule, name, futures[name])
    schedule.durations.save()


def _collect(slots: Slots, events: _Events) -> None:
    """Assemble in another thread, so that this one receives Ctrl-C."""
    collect = task(name="collect", cache_policy=NO_CACHE, persist_result=False)(slots.assemble)
    future = collect.submit(return_state=False)
    events.watch("collect", future)
    events.next()
    future.result()


def _end(schedule: Schedule, name: str, future: PrefectFuture[Outcome]) -> None:
    """Report the end of a stage's task to the schedule and the user, with its error if any."""
    future.wait()  # else `state` asks the server, which lags behind
    result: Any = future.state.result(raise_on_failure=False)
    if result == "stays":
        schedule.keep(name)
        return
    if result == "crowded":
        schedule.give_whole(name)
        return
    if isinstance(result, CommandError):
        show(result)
    elif isinstance(result, Exception) and not isinstance(result, Stopped):
        whose = "" if isinstance(result, RaptError) else f"{name}: "
        console.print(f"{whose}{described(result)}", style="red", markup=False)
    success = future.state.is_completed()
    schedule.end(name, success=success)
    outcome = "cached" if success else "failed"
    if success and result is not None:
        schedule.durations.add(schedule.plan[name], result)
        outcome = span(result)
    show_end(schedule, name, outcome)
