"""Reproduce the DVC graph in parallel: `rapt flow --slots 2`.

Leaves the same bytes, dvc.lock included, as `dvc repro` alone. Every stage that is not up to
date is one Prefect task that runs in a slot (see pipelines.slots); when all succeeded, one plain
`dvc repro` in the main workspace collects them from the cache. When one failed, what does not
depend on it still runs and stays cached, and dvc.lock stays as it was. Ctrl-C once lets the
stages that run end, twice stops them.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines import executor, finish, graph, server
from pipelines.progress import console
from pipelines.schedule import Durations, Schedule
from pipelines.slots import Slots, gpus
from rapt import params


def warn_of_damage(slots: Slots) -> None:
    """Say what was damaged in DVC's cache, which would have passed for whole."""
    if slots.damaged:
        console.print(f"warning: {slots.damaged} damaged in DVC's cache: removed, made again")


def start(plan: graph.Plan, slots: int, experiment: params.Params) -> None:
    """Run a plan in so many slots.

    Raises:
        RaptError: see its text.
    """
    begun = server.begin()  # its seconds pass while the slots are made
    with Slots(Path.cwd(), min(slots, len(plan))) as pool:
        warn_of_damage(pool)
        with server.running(begun), server.needed():
            reproduce(plan, pool, experiment)


def reproduce(plan: graph.Plan, slots: Slots, experiment: params.Params) -> None:
    """Run the stages of `plan` in the slots, then collect and show what they made, as a flow.

    Raises:
        RaptError: stages failed, or the user said Ctrl-C.
    """
    runner = ThreadPoolTaskRunner(max_workers=slots.count)  # type: ignore[var-annotated]

    @flow(name="reproduce", task_runner=runner)  # type: ignore[arg-type]
    def reproduce() -> None:
        # Closed here: Prefect waits for threads that wait for what runs, then a SIGTERM is the end.
        with closing(slots):
            executor.run(Schedule(plan, slots.count, gpus(), Durations(slots.root)), slots)
        finish.finish(experiment)

    reproduce()
