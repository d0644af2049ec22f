"""Privatize a folder of Parquet files by many processes: `python -m pipelines.privatize IN OUT …`.

Takes the options of `rapt privatize` and writes the same files. Every file is one Prefect task on a
Dask worker, which reads and writes the folders itself. Only the names of files and the numbers of
documents pass through Prefect and Dask. If a worker is killed, another one continues its file.
"""

from __future__ import annotations

import inspect
import logging
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture, as_completed
from rich.console import Console
from rich.progress import Progress

from pipelines import server
from rapt import cli, defaults
from rapt.release import command
from rapt.release.formats import STREAM
from rapt.release.job import Job
from rapt.release.text import TextPrivatizer
from rapt.utils import process
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from prefect_dask import DaskTaskRunner
    from prefect_dask.task_runners import PrefectDaskFuture

PATHS = ("path", "out", "table", "keep_map")  # options that workers have to find
SECONDS_TO_ANSWER = 10  # of a scheduler
# Run by each worker as it starts: Ctrl-C in the terminal reaches the flow alone, which ends them.
PRELOAD = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
# Of every second of the last quarter of an hour a worker would keep what ran.
NO_PROFILE = {"distributed.worker.profile.enabled": False}


def release(job: Job, privatizer: TextPrivatizer, runner: DaskTaskRunner) -> None:
    """Release every file of the folder; `job.finish` then makes the release of them."""

    @task(name="file", task_run_name="{name}", cache_policy=NO_CACHE, persist_result=False)
    def file(name: str) -> int:
        try:
            return job.release(name, privatizer).documents
        except RaptError:
            raise
        except Exception as error:  # whose text may quote the file's
            raise RaptError(_crashed(job.path / name, error)) from None

    @flow(name="privatize", task_runner=runner)  # type: ignore[arg-type]
    def privatize(names: list[str]) -> None:
        failed = []
        with Progress(console=_console()) as progress:
            line = progress.add_task("files", total=len(names))
            futures = dict(zip(file.map(names), names, strict=True))
            for future in as_completed(list(futures)):
                if problem := _problem(future, job.path / futures[future]):
                    failed.append(problem)
                    progress.console.print(problem, style="red", markup=False, soft_wrap=True)
                # Else its worker would keep what the task was given, flow and all.
                cast("PrefectDaskFuture[int]", future).wrapped_future.release()
                progress.advance(line)
        if failed:
            raise RaptError(
                f"{job.path}: got {len(failed)} of {len(names)} files that failed, expected none. "
                "The others are done."
            )

    privatize(job.names)


def _console() -> Console:
    # No global: Dask sends the flow with all that it refers to, and a terminal cannot be sent.
    return Console(stderr=True, highlight=False)


def _problem(future: PrefectFuture[int], path: Path) -> str | None:
    try:
        future.result()
    except RaptError as error:
        return str(error)
    except Exception as error:  # Dask's own: a file that killed its worker again and again
        return _crashed(path, error)
    return None


def _crashed(path: Path, error: Exception) -> str:
    return f"{path}: got an error of the program, {type(error).__name__}, expected none."


def task_runner(workers: int, scheduler: str | None) -> DaskTaskRunner:
    """Workers on this machine, or those of a scheduler, each of one thread."""
    try:
        from prefect_dask import DaskTaskRunner
    except ImportError:
        raise RaptError(
            "dask: got no package prefect-dask, expected it. Next: pip install 'rapt[scale]'"
        ) from None
    if scheduler:
        _check(scheduler)
        return DaskTaskRunner(address=scheduler)
    return DaskTaskRunner(
        cluster_kwargs={
            "n_workers": workers,
            "threads_per_worker": 1,
            "processes": True,
            "host": "127.0.0.1",
            "dashboard_address": None,
            "silence_logs": logging.CRITICAL,
            "preload": [PRELOAD],
            "config": NO_PROFILE,
        }
    )


def _check(scheduler: str) -> None:
    from distributed import Client

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


def start(workers: int, scheduler: str | None, **given: Any) -> str:
    """Check, privatize and tell how it went, as `rapt privatize` does."""
    given["table"] = given["table"] or defaults.table()
    here = {name: given[name].absolute() for name in PATHS if given[name] not in (None, STREAM)}
    job, privatizer = command.prepared(**given | here)
    if not job.is_folder:
        raise RaptError(
            f"{given['path']}: got a file, expected a folder of Parquet files. Privatize a file "
            "with `rapt privatize`."
        )
    runner = task_runner(min(workers, len(job.names)), scheduler)
    with ExitStack() as stack:
        stack.enter_context(job.opened(privatizer))
        with _console().status("starting Prefect"):
            stack.enter_context(server.running())
        release(job, privatizer, runner)
        seeded = privatizer.insecure_seed is not None
        return command.summary(job.out, job.finish(privatizer), seeded=seeded)


def main(
    *,
    workers: Annotated[int, typer.Option(min=1, help="Processes side by side.")] = process.cores(),
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler; else workers start here.")
    ] = None,
    **given: Any,
) -> None:
    """Privatize a folder of Parquet files, several files at a time."""
    try:
        typer.echo(start(workers, scheduler, **given), err=True)
    except RaptError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command goes on where it stopped")


def _with_options_of(other: Any, own: Any) -> inspect.Signature:
    """The parameters of both, for typer."""
    theirs, ours = (inspect.signature(function, eval_str=True) for function in (other, own))
    named = (p for p in ours.parameters.values() if p.kind is p.KEYWORD_ONLY)
    shared = (p for name, p in theirs.parameters.items() if name != "preview")
    kept = (p.replace(kind=p.KEYWORD_ONLY) for p in shared)
    return ours.replace(parameters=[*kept, *named])


main.__signature__ = _with_options_of(cli.privatize, main)  # type: ignore[attr-defined]

if __name__ == "__main__":
    typer.run(main)
