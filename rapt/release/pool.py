"""The files of a folder side by side, each by one of several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from rapt.utils.errors import RaptError
from rapt.utils.process import die_with_parent, without
from rapt.utils.progress import Steps

if TYPE_CHECKING:  # a worker imports these in `_begin`
    from rapt.privacy.fates import Counts
    from rapt.release.job import Job
    from rapt.release.text import TextPrivatizer

# The parts of a file: the documents of each, and whether an earlier run did it.
Parts = list[tuple[int, bool]]
# A file, and what returns its parts, or fails as the file did.
Outcome = tuple[str, Callable[[], Parts]]
# Releases every file of a job that is `opened`.
Release = Callable[["Job", "TextPrivatizer"], None]


def run(job: Job, privatizer: TextPrivatizer, release: Release) -> Counts:
    """Privatize the files of a folder by workers; otherwise as `Job.run`.

    Raises:
        RaptError: it is no folder, or a file failed; the others are done.
    """
    if not job.is_folder:
        raise RaptError(
            f"{job.path}: got a file or a stream, expected a folder of Parquet files, which "
            "workers share. One file takes one process."
        )
    privatizer.account().check()
    with job.opened(privatizer):
        release(job, privatizer)
        return job.finish(privatizer)


def by_processes(job: Job, privatizer: TextPrivatizer, *, workers: int) -> None:
    """Release the files by processes of this machine, each of one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"
    workers = min(workers, len(job.names))
    with closing(_outcomes(job, privatizer, job.names, workers)) as outcomes:
        collect(job, outcomes)


def release_file(job: Job, privatizer: TextPrivatizer, name: str) -> Parts:
    """Release one of the files; any process may do this.

    Raises:
        RaptError: it failed. The text of an error of the program may quote the file's, so its type
            is all that is told of it.
    """
    parts: Parts = []
    try:
        job.release(name, privatizer, lambda size, is_done: parts.append((size, is_done)))
    except RaptError:
        raise
    except Exception as error:
        raise RaptError(_crashed(job.path / name, error)) from None
    return parts


def collect(job: Job, outcomes: Iterable[Outcome]) -> None:
    """Show the progress, and a line for each file that failed as soon as it did; others go on.

    Raises:
        RaptError: a file failed.
    """
    failed = 0
    with Steps("privatizing", job.documents(), "document") as progress:
        for name, result in outcomes:
            parts, problem = _ended(job.path / name, result)
            for size, is_done in parts:
                progress.update(size, is_done)
            if problem:
                tqdm.write(problem, file=sys.stderr)
                failed += 1
    if failed:
        raise RaptError(
            f"{job.path}: got {failed} of {len(job.names)} files that failed, expected none. The "
            "others are done."
        )


def _ended(path: Path, result: Callable[[], Parts]) -> tuple[Parts, str]:
    """Return the parts of a file, or why it has none."""
    try:
        return result(), ""
    except RaptError as error:
        return [], str(error)
    except Exception as error:
        return [], _crashed(path, error)


def _outcomes(
    job: Job, privatizer: TextPrivatizer, names: Sequence[str], workers: int
) -> Generator[Outcome]:
    """Yield each file as it ends.

    If a worker is killed, as when memory does not suffice, the executor ends the others, too. Half
    as many go on with the files that are left. A file that kills a worker that is alone failed.
    """
    left = list(names)
    with _executor(workers) as executor:
        with _without_interrupts():
            futures = {executor.submit(release_file, job, privatizer, name): name for name in names}
        for future in as_completed(futures):
            if not isinstance(future.exception(), BrokenProcessPool):
                left.remove(futures[future])
                yield futures[future], future.result
    if left and workers == 1:  # which took them in order
        yield left[0], partial(_killed, job.path / left[0])
        left = left[1:]
    if left:
        yield from _outcomes(job, privatizer, left, max(1, workers // 2))


@contextmanager
def _executor(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes that are killed if this one is, or stops waiting for them."""
    context = multiprocessing.get_context("spawn")
    has_torch = bool(sys.modules.get("torch"))
    executor = ProcessPoolExecutor(workers, context, _begin, (has_torch,))
    try:
        yield executor
    except BaseException:  # such as Ctrl-C
        for child in multiprocessing.active_children():
            child.kill()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _begin(has_torch: bool) -> None:
    """Import what a worker needs, without torch if the parent did."""
    die_with_parent()
    with nullcontext() if has_torch else without("torch"):
        import rapt.release.job  # noqa: F401


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C in the terminal does not reach: they inherit this mask."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _crashed(path: Path, error: Exception) -> str:
    return f"{path}: got an error of the program, {type(error).__name__}, expected none."


def _killed(path: Path) -> Parts:
    raise RaptError(
        f"{path}: got a killed worker, as when memory does not suffice, expected one that ends by "
        "itself."
    )
