"""Reproduce the DVC graph in parallel: `python -m pipelines.reproduce --slots 2`.

Leaves the same bytes, dvc.lock included, as `dvc repro` alone. Every stage that is not up to
date is one Prefect task that runs in a slot (see pipelines.slots); when all succeeded, one plain
`dvc repro` in the main workspace collects them from the cache. When one failed, what does not
depend on it still runs and stays cached, and dvc.lock stays as it was. Ctrl-C once lets the
stages that run end, twice stops them.
"""

from __future__ import annotations

import queue
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Self

import httpx
import typer
from prefect import Task, flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines import artifacts, cache, graph, server
from pipelines.board import Board, console, show
from pipelines.schedule import Durations, Schedule
from pipelines.slots import CommandError, Slots, Stopped, gpus, snapshot
from rapt import check, params, process
from rapt.errors import RaptError

# Seconds before a stage is started again, if what broke it may pass.
BACKOFF = [2, 10]
SECONDS_BETWEEN_UPDATES = 5
CTRL_C = "Ctrl-C"
INTERRUPTED = "interrupted: nothing here has changed; what is finished stays in the cache"


def _may_pass(_: Task[Any, Any], __: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.data, CommandError) and state.data.may_pass


stage_task = task(
    name="stage",
    task_run_name="{stage}",
    retries=len(BACKOFF),
    retry_delay_seconds=BACKOFF,  # type: ignore[arg-type]
    retry_condition_fn=_may_pass,
    cache_policy=NO_CACHE,
    persist_result=False,
)


@flow(name="reproduce", validate_parameters=False)
def reproduce(plan: graph.Plan, slots: int, experiment: params.Params) -> None:
    """Run the stages of `plan` in `slots` slots, then collect and show what they made.

    Raises:
        RaptError: stages failed, the slots could not be made, or the user said Ctrl-C.
    """
    root = Path.cwd()
    schedule = Schedule(plan, slots, gpus(), Durations(root))
    with Slots(root, slots) as pool, _Events(pool, schedule) as events:
        if damaged := cache.remove_damaged(pool.cache, root / ".rapt/cache.json"):
            console.print(f"warning: {damaged} damaged in DVC's cache: removed, made again")
        _run(schedule, pool, events)
        if events.interrupts:
            raise Stopped(INTERRUPTED)
        if schedule.failed:
            raise RaptError(
                f"failed: {', '.join(schedule.failed)}; "
                f"skipped, as they depend on these: {len(schedule.skipped)}"
            )
        with console.status("collecting from the cache"):
            _collect(pool, events)
    run_in_mlflow = mirror(experiment)
    with _optional("Prefect's pages are not filled in"):
        artifacts.results(experiment, run_in_mlflow)


def _run(schedule: Schedule, pool: Slots, events: _Events) -> None:
    """Run every stage whose dependencies succeeded, as the schedule says."""
    board, bars = Board(schedule), artifacts.Bars(schedule)
    futures: dict[str, PrefectFuture[None]] = {}

    @stage_task
    def run(stage: str, gpu: str | None) -> None:
        started = time.monotonic()
        try:
            if pool.reproduce(stage, gpu):
                schedule.durations.add(schedule.plan[stage], time.monotonic() - started)
        except CommandError as error:
            if error.may_pass:
                console.print(f"{error}, which may pass", style="yellow")
            raise

    with board.progress:
        while True:
            while lease := schedule.next():
                stage = lease.stage
                upstream = [futures[name] for name in stage.upstream]
                future = run.submit(stage.name, lease.gpu, return_state=False, wait_for=upstream)
                futures[stage.name] = future
                events.watch(stage.name, future)
            board.show()
            bars.show()
            if not schedule.running:
                break
            if name := events.next():
                schedule.end(name, success=_succeeded(futures[name]))
    schedule.durations.save()


def _collect(pool: Slots, events: _Events) -> None:
    """Assemble in a thread, so that this one hears Ctrl-C."""
    future = task(name="collect", cache_policy=NO_CACHE, persist_result=False)(
        pool.assemble
    ).submit(return_state=False)
    events.watch("collect", future)
    while events.next() is None:
        pass
    future.result()


def _succeeded(future: PrefectFuture[None]) -> bool:
    future.wait()  # else `state` asks the server, which lags behind
    error = future.state.result(raise_on_failure=False)
    if isinstance(error, CommandError):
        show(error)
    return future.state.is_completed()


class _Events:
    """What the main thread waits for: futures that end, and the user's Ctrl-C."""

    def __init__(self, pool: Slots, schedule: Schedule) -> None:
        """Nothing is heard before `with`."""
        self.interrupts = 0
        self._pool, self._schedule = pool, schedule
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        """Take Ctrl-C over: an exception out of nowhere would leave Prefect's state undone."""
        self._before = signal.signal(signal.SIGINT, lambda *_: self._heard.put(CTRL_C))
        return self

    def __exit__(self, *_: object) -> None:
        """Give Ctrl-C back."""
        signal.signal(signal.SIGINT, self._before)

    def watch(self, name: str, future: PrefectFuture[None]) -> None:
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
            self._pool.stop()
        else:
            console.print("waiting for what runs; Ctrl-C again stops it")


@contextmanager
def _optional(warning: str) -> Iterator[None]:
    """The results stand without this, so it may fail."""
    try:
        yield
    except Exception as error:
        console.print(f"warning: {warning}: {' '.join(str(error).split())}")


def mirror(experiment: params.Params) -> str | None:
    """Fill in MLflow's mirror; return where it shows the experiment, below its address."""
    with _optional("MLflow is not up to date"):
        from rapt.tracking import sync  # here, as MLflow takes seconds to import

        return sync(experiment)
    return None


def start(slots: int) -> None:
    """Check, plan and run; a finished pipeline starts nothing.

    Raises:
        RaptError: see its text.
    """
    experiment = check.check()
    root = Path.cwd()
    snapshot(root)  # refuses now rather than after Prefect's start
    plan = graph.plan(root)
    if not plan:
        console.print("up to date")
        mirror(experiment)
        return
    slots = min(slots, len(plan))
    runner = ThreadPoolTaskRunner(max_workers=slots)  # type: ignore[var-annotated]
    with ExitStack() as stack:
        with console.status("starting Prefect"):
            stack.enter_context(server.running())
        try:
            reproduce.with_options(task_runner=runner)(plan, slots, experiment)  # type: ignore[arg-type]
        except httpx.TransportError as error:
            raise RaptError(
                "Prefect's server is lost; what is finished stays in the cache: start again"
            ) from error
    console.print(f"{len(plan)} stages run, everything is up to date")


def main(
    slots: Annotated[int, typer.Option(min=1, help="Stages side by side.")] = process.cores(),
) -> None:
    """Reproduce the DVC graph, several stages at a time."""
    try:
        start(slots)
    except CommandError as error:
        show(error)
        sys.exit(1)
    except RaptError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    typer.run(main)
