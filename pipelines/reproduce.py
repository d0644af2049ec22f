"""Reproduce the DVC graph in parallel: `rapt flow --slots 2`.

Leaves the same bytes, dvc.lock included, as `dvc repro` alone. Every stage that is not up to
date is one Prefect task. It runs in a slot (see pipelines.slots), or on a work pool (see
pipelines.remote). If all succeed, one plain `dvc repro` in the main workspace collects them from
the cache. If one fails, the stages that do not depend on it still run and stay cached, and dvc.lock
does not change. Ctrl-C once waits for the running stages, twice stops them.
"""

from __future__ import annotations

from contextlib import closing

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines import executor, finish, graph, server
from pipelines.progress import console
from pipelines.schedule import Durations, Schedule
from pipelines.slots import Slots, gpus
from rapt import params


def start(plan: graph.Plan, slots: Slots, experiment: params.Params) -> None:
    """Run the stages of `plan`, then collect and show what they made, as a Prefect flow.

    Raises:
        RaptError: stages failed, the user pressed Ctrl-C, or Prefect's server is lost.
    """
    begun = server.begin()  # its seconds pass while the slots are made
    runner = ThreadPoolTaskRunner(max_workers=slots.count + slots.ahead)  # type: ignore[var-annotated]

    @flow(name="reproduce", task_runner=runner)  # type: ignore[arg-type]
    def reproduce() -> None:
        # Closed here: Prefect waits for threads that wait for what runs, then a SIGTERM is the end.
        with closing(slots):
            durations = Durations(slots.root)
            schedule = Schedule(plan, slots.count, gpus(), durations, elsewhere=slots.ahead)
            executor.run(schedule, slots)
        finish.finish(experiment)

    with server.needed(), slots, server.running(begun):
        if slots.damaged:
            console.print(f"warning: {slots.damaged} damaged in DVC's cache: removed, made again")
        reproduce()
