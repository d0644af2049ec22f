"""Reproduce the DVC graph in parallel, on a pool too where one is given: `rapt flow`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from pipelines import cache, graph
from pipelines.checkout import git
from pipelines.progress import console, show
from pipelines.served import CommandError
from pipelines.slots import INTERRUPTED, Slots, Stopped, only_one, snapshot
from rapt import params
from rapt.commands import check
from rapt.params import Params
from rapt.utils import process
from rapt.utils.errors import RaptError, described, disk_errors


def main(
    slots: Annotated[int, typer.Option(min=1, help="Stages side by side here.")] = process.slots(),
    pool: Annotated[
        str | None, typer.Option(help="Prefect work pool for the provider's stages; else here.")
    ] = None,
    repository: Annotated[
        str | None, typer.Option(help="Where the pool's workers fetch from; else git's origin.")
    ] = None,
    per_gpu: Annotated[int, typer.Option(min=1, help="Stages that share a GPU here.")] = 1,
) -> None:
    """Reproduce the DVC graph, several stages at a time."""
    told(lambda: start(slots, pool, repository, per_gpu))


def start(slots: int, pool: str | None, repository: str | None, per_gpu: int = 1) -> None:
    """Check, plan and run; a finished pipeline starts nothing."""
    if repository and not pool:
        raise RaptError(
            f"repository: got {repository!r}, expected none without --pool. Add --pool."
        )
    experiment, root = params.load(), Path.cwd()
    check.refuse(check.of_files(experiment))
    with only_one(root):
        cache.remove_partial(root)
    snapshot(root)  # refuses now rather than after Prefect's start
    plan = graph.plan(root)
    if not plan:
        console.print("up to date")
        mirror(experiment)
        return
    check.refuse(check.of_what_runs(experiment))
    if left := graph.left(root):  # in folders that gates, cells and the report depend on
        console.print(
            f"{left[0]} and {len(left) - 1} more are of an earlier params.yaml. While they are "
            "there, the stages that read their folders run again each time. rapt clean removes "
            "them.",
            markup=False,
        )
    from pipelines import remote, reproduce  # here, as Prefect takes seconds to import

    slots = min(slots, len(plan))
    if pool:
        here: Slots = remote.Sides(root, slots, pool, experiment, repository)
    else:
        here = Slots(root, slots)
    reproduce.start(plan, here, lambda: finish(experiment), per_gpu)
    console.print(f"{len(plan)} stages run, everything is up to date")
    # Code, params and metrics are the commit's, and so is all that the stages started from.
    edited = git(root, "diff", "--relative", "--name-only", "HEAD", check=False)
    if edited == "dvc.lock" and cache.same_inputs(
        git(root, "show", "HEAD:./dvc.lock"), (root / "dvc.lock").read_text()
    ):
        console.print(
            "dvc.lock changed: this processor rounds the last digits of some outs otherwise than "
            "the one that wrote it. The metrics are equal. To keep the old one: git checkout "
            "dvc.lock"
        )


def finish(experiment: Params) -> None:
    """Show a finished flow's results in MLflow and on Prefect's pages."""
    from pipelines import artifacts  # here, as a flow that is up to date needs no Prefect

    run_in_mlflow = mirror(experiment)
    with _optional("Prefect's pages are not filled in", "the next rapt flow"):
        artifacts.results(experiment, run_in_mlflow)


def mirror(experiment: Params) -> str | None:
    """Update MLflow if it lacks something; return its page below MLflow's address, if it did."""
    with _optional("MLflow is not up to date", "rapt sync"):
        from rapt.reporting import mlflow_mirror

        if not mlflow_mirror.is_synced(experiment):  # which mostly needs no MLflow
            return mlflow_mirror.sync(experiment)
    return None


@contextmanager
def _optional(warning: str, again: str) -> Iterator[None]:
    """Turn an error into a warning, as no result depends on this step."""
    try:
        yield
    except Exception as error:
        console.print(
            f"warning: {warning} ({described(error)}); {again} tries again.", markup=False
        )


def told(start: Callable[[], None]) -> None:
    """Start a flow from the command line: an error that the user can fix is one line, status 2."""
    try:
        with disk_errors():
            start()
    except CommandError as error:
        show(error)
        sys.exit(1)
    except RaptError as error:
        print(error, file=sys.stderr)
        sys.exit(1 if isinstance(error, Stopped) else 2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run() -> None:
    """Read the options of the command line."""
    app = typer.Typer(add_completion=False)
    app.command()(main)
    app(prog_name="rapt flow")


if __name__ == "__main__":
    run()
