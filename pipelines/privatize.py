"""Privatize a folder by several machines: `python -m pipelines.privatize SCHEDULER IN OUT …`.

Takes the options of `rapt privatize` and writes the same files. Every file is one Prefect task on a
worker of a Dask scheduler, which reads and writes the folders itself. Only the names of files and
the sizes of their parts pass through Prefect and Dask. If a worker is killed, another one continues
its file. On one machine, `rapt privatize --workers` does this without Prefect and Dask.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import as_completed

from pipelines import server
from rapt import cli, defaults
from rapt.release import command, pool
from rapt.release.formats import STREAM
from rapt.release.job import Job
from rapt.release.text import TextPrivatizer
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from prefect_dask import DaskTaskRunner
    from prefect_dask.task_runners import PrefectDaskFuture

PATHS = ("path", "out", "table", "keep_map")  # options that workers have to find
SECONDS_TO_ANSWER = 10  # of a scheduler


def release(job: Job, privatizer: TextPrivatizer, *, runner: DaskTaskRunner) -> None:
    """Release every file of the folder by the workers of a scheduler."""

    @task(name="file", task_run_name="{name}", cache_policy=NO_CACHE, persist_result=False)
    def file(name: str) -> pool.Parts:
        return pool.release_file(job, privatizer, name)

    def outcomes(names: list[str]) -> Iterator[pool.Outcome]:
        futures = dict(zip(file.map(names), names, strict=True))
        for future in as_completed(list(futures)):
            yield futures[future], future.result
            # Else its worker would keep what the task was given, flow and all.
            cast("PrefectDaskFuture[pool.Parts]", future).wrapped_future.release()

    @flow(name="privatize", task_runner=runner)  # type: ignore[arg-type]
    def privatize(names: list[str]) -> None:
        pool.collect(job, outcomes(names))

    privatize(job.names)


def task_runner(scheduler: str) -> DaskTaskRunner:
    """Check that a scheduler answers and that each of its workers has one thread."""
    try:
        from distributed import Client
        from prefect_dask import DaskTaskRunner
    except ImportError:
        raise RaptError(
            "dask: got no package prefect-dask, expected it. Next: pip install 'rapt[scale]'"
        ) from None
    try:
        with Client(scheduler, timeout=SECONDS_TO_ANSWER, set_as_default=False) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
    except (OSError, ValueError):
        raise RaptError(
            f"scheduler: got {scheduler!r}, expected one that answers. Try: dask scheduler"
        ) from None
    if any(worker["nthreads"] > 1 for worker in workers):  # spaCy tags in one thread at a time
        raise RaptError(
            "scheduler: got workers of several threads, expected one thread in each. "
            "Try: dask worker ADDRESS --nthreads 1"
        )
    return DaskTaskRunner(address=scheduler)


def start(scheduler: str, given: dict[str, Any]) -> str:
    """Check, privatize and tell how it went, as `rapt privatize` does with these options."""
    given["table"] = given["table"] or defaults.table()
    places = {name: Path(given[name]) for name in PATHS if given[name]}
    here = {name: path if path == STREAM else path.absolute() for name, path in places.items()}
    job, privatizer = command.prepared(**given | here)
    runner = task_runner(scheduler)
    with server.running():
        counts = pool.run(job, privatizer, partial(release, runner=runner))
    return command.summary(job.out, counts, seeded=privatizer.insecure_seed is not None)


def options(arguments: list[str]) -> dict[str, Any]:
    """Read the options of `rapt privatize`, but for those of one machine."""
    command = typer.Typer()
    command.command()(cli.privatize)
    given = typer.main.get_command(command).make_context("rapt privatize", arguments).params
    return {name: value for name, value in given.items() if name not in ("preview", "workers")}


def main(
    context: typer.Context,
    scheduler: Annotated[str, typer.Argument(help="Address of a Dask scheduler.")],
) -> None:
    """Privatize a folder of Parquet files by a scheduler's workers."""
    try:
        typer.echo(start(scheduler, options(context.args)), err=True)
    except RaptError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command goes on where it stopped")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(main)
    app()
