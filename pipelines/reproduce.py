"""Reproduce the DVC graph in parallel: `python -m pipelines.reproduce --slots 2`.

Leaves the same bytes, dvc.lock included, as `dvc repro` alone. Every stage that is not up to
date is one Prefect task that runs in a slot (see pipelines.slots); when all succeeded, one plain
`dvc repro` in the main workspace collects them from the cache. When one failed, what does not
depend on it still runs and stays cached, and dvc.lock stays as it was.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Annotated

import typer
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines import graph, server
from pipelines.slots import CommandError, Slots, snapshot
from rapt import check, params, process
from rapt.errors import RaptError

console = Console(stderr=True, highlight=False)


class Board:
    """One progress line for each kind of stage: how many are done, run now, and are to run."""

    def __init__(self, stages: Iterable[str]) -> None:
        """Count `stages`."""
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[running]} running"),
            TimeElapsedColumn(),
            console=console,
        )
        self._running: Counter[str] = Counter()
        self._guard = threading.Lock()
        self._lines = {
            kind: self.progress.add_task(kind, total=total, start=False, running=0)
            for kind, total in Counter(map(_kind, stages)).items()
        }

    @contextmanager
    def watch(self, stage: str) -> Iterator[None]:
        """Show `stage` as running within the block, then as done, or why it failed."""
        line = self._lines[_kind(stage)]
        self.progress.start_task(line)
        self._count(stage, +1)
        try:
            yield
            self.progress.advance(line)
        except CommandError as error:
            show(error)
            raise
        finally:
            self._count(stage, -1)

    def _count(self, stage: str, change: int) -> None:
        kind = _kind(stage)
        with self._guard:
            self._running[kind] += change
            self.progress.update(self._lines[kind], running=self._running[kind])


@flow(name="reproduce")
def reproduce(plan: graph.Plan, slots: int) -> None:
    """Run the stages of `plan` in `slots` slots, then collect what they made.

    Raises:
        RaptError: stages failed, or the slots could not be made.
    """
    board = Board(plan)
    with Slots(Path.cwd(), slots) as pool:
        with board.progress:
            failed = _walk(plan, pool, board)
        if failed:
            skipped = len(_downstream(plan, failed))
            raise RaptError(
                f"failed: {', '.join(failed)}; skipped, as they depend on these: {skipped}"
            )
        with console.status("collecting from the cache"):
            pool.assemble()


def _walk(plan: graph.Plan, pool: Slots, board: Board) -> list[str]:
    """Run every stage whose dependencies succeeded; return those that failed."""

    @task(name="stage", task_run_name="{stage}", cache_policy=NO_CACHE, persist_result=False)
    def run(stage: str) -> None:
        with board.watch(stage):
            pool.reproduce(stage)

    order = TopologicalSorter(plan)
    order.prepare()
    futures: dict[str, PrefectFuture[None]] = {}
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    failed: list[str] = []
    running = 0
    try:
        while True:
            for stage in order.get_ready():
                upstream = [futures[dependency] for dependency in plan[stage]]
                future = run.submit(stage, return_state=False, wait_for=upstream)
                future.add_done_callback(lambda _, stage=stage: ended.put(stage))  # type: ignore[misc]
                futures[stage] = future
                running += 1
            if not running:
                return failed
            stage = ended.get()
            running -= 1
            futures[stage].wait()  # else `state` asks the server, which lags behind
            if futures[stage].state.is_completed():
                order.done(stage)
            else:
                failed.append(stage)
    except BaseException:  # Ctrl-C: Prefect would wait for the stages that run
        pool.stop()
        raise


def _downstream(plan: graph.Plan, failed: list[str]) -> set[str]:
    """The stages that wait for a failed one, or for one of these."""
    lost = set(failed)
    for stage in TopologicalSorter(plan).static_order():
        if lost.intersection(plan[stage]):
            lost.add(stage)
    return lost - set(failed)


def _kind(stage: str) -> str:
    return stage.partition("@")[0]


def show(error: CommandError) -> None:
    """Show the end of a failed command's log."""
    console.print(f"{error}; the whole log: {error.log.relative_to(Path.cwd())}", style="red")
    console.print(error.tail(), markup=False)


def mirror(experiment: params.Params) -> None:
    """Fill in MLflow's mirror; the results stand without it, so it may fail."""
    try:
        from rapt.tracking import sync  # here, as MLflow takes seconds to import

        sync(experiment)
    except Exception as error:
        console.print(f"warning: MLflow is not up to date: {' '.join(str(error).split())}")


def start(slots: int) -> None:
    """Check, plan and run; a finished pipeline starts nothing.

    Raises:
        RaptError: see its text.
    """
    experiment = check.check()
    root = Path.cwd()
    snapshot(root)  # refuses now rather than after Prefect's start
    plan = graph.plan(root)
    if plan:
        slots = min(slots, len(plan))
        runner = ThreadPoolTaskRunner(max_workers=slots)  # type: ignore[var-annotated]
        with ExitStack() as stack:
            with console.status("starting Prefect"):
                stack.enter_context(server.running())
            reproduce.with_options(task_runner=runner)(plan, slots)  # type: ignore[arg-type]
    console.print(f"{len(plan)} stages run, everything is up to date" if plan else "up to date")
    mirror(experiment)


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
        sys.exit("interrupted: nothing here has changed; what is finished stays in the cache")


if __name__ == "__main__":
    typer.run(main)
