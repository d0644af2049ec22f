"""Reproduce the DVC graph in parallel: `rapt flow --slots 2`, or `python -m pipelines.reproduce`.

Leaves the same bytes, dvc.lock included, as `dvc repro` alone. Every stage that is not up to
date is one Prefect task that runs in a slot (see pipelines.slots); when all succeeded, one plain
`dvc repro` in the main workspace collects them from the cache. When one failed, what does not
depend on it still runs and stays cached, and dvc.lock stays as it was. Ctrl-C once lets the
stages that run end, twice stops them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines import artifacts, graph, server, walk
from pipelines.board import console
from pipelines.schedule import Durations, Schedule
from pipelines.slots import Slots, gpus, recover, snapshot
from rapt import check, params


@flow(name="reproduce", validate_parameters=False)
def reproduce(plan: graph.Plan, slots: int, experiment: params.Params) -> None:
    """Run the stages of `plan` in `slots` slots, then collect and show what they made.

    Raises:
        RaptError: stages failed, the slots could not be made, or the user said Ctrl-C.
    """
    root = Path.cwd()
    with Slots(root, slots) as pool:
        warn_of_damage(pool)
        walk.run(Schedule(plan, slots, gpus(), Durations(root)), pool)
    finish(experiment)


def warn_of_damage(slots: Slots) -> None:
    """Say what was damaged in DVC's cache, which would have passed for whole."""
    if slots.damaged:
        console.print(f"warning: {slots.damaged} damaged in DVC's cache: removed, made again")


def finish(experiment: params.Params) -> None:
    """Show in MLflow and on Prefect's pages what a flow made, at its end."""
    run_in_mlflow = mirror(experiment)
    with _optional("Prefect's pages are not filled in"):
        artifacts.results(experiment, run_in_mlflow)


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
    recover(root)
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
        stack.enter_context(server.needed())
        reproduce.with_options(task_runner=runner)(plan, slots, experiment)  # type: ignore[arg-type]
    console.print(f"{len(plan)} stages run, everything is up to date")


if __name__ == "__main__":
    from pipelines.__main__ import run

    run()
