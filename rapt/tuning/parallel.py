"""Training of a cell's seeds in parallel, in processes of one thread each."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from rapt.tuning.config import Run, Trained
from rapt.utils.device import device_name, has_gpu
from rapt.utils.errors import RaptError
from rapt.utils.process import die_with_parent, workers


def train_cell(runs: Sequence[Run]) -> list[Trained]:
    """Train every run of a cell, in RAPT_WORKERS processes of one thread.

    By default there are as many processes as cores; on a GPU as many as half of its free memory has
    room for, too, as each holds its own backbone. Their number does not change the results. The
    parent does not load torch. With RAPT_CARDS above 1 that many processes train each seed
    together, one seed after the other.

    Raises:
        RaptError: as `train_seed`, or a process was killed.
    """
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    count = runs[0].cards if runs[0].cards > 1 else workers(len(runs))
    try:
        trained = _together(runs) if runs[0].cards > 1 else _side_by_side(runs, count)
    except BrokenProcessPool:
        lower = f"Set RAPT_WORKERS below {count}, or lower" if count > 1 else "Lower"
        raise RaptError(
            f"{runs[0].cell}: got a killed process, as when memory does not suffice, expected all "
            f"to end by themselves. {lower} batch_size or max_tokens. {_saved(runs)}"
        ) from None
    return sorted(trained, key=lambda one: one.result.seed)


def _side_by_side(runs: Sequence[Run], count: int) -> list[Trained]:
    """Train seeds in at most `count` processes; on a GPU those that lack memory again, alone."""
    on_gpu = has_gpu() and not runs[0].tuner.reads_words
    with _processes(count) as pool:
        if on_gpu and not os.environ.get("RAPT_WORKERS"):
            # The process that is asked goes on with the first seed.
            (count,) = pool.map(_that_fit, runs[:1], [count])
        runs = [replace(run, beside=on_gpu and count > 1) for run in runs]
        shares = [runs[i::count] for i in range(count)]
        found = list(pool.map(_train_share, shares))
    trained = [one for share in found if share for one in share]
    lacking = [
        replace(run, beside=False)
        for share, of_share in zip(shares, found, strict=True)
        if of_share is None
        for run in share
    ]
    if lacking:  # those of them that were done are only scored again
        seeds = ", ".join(str(run.k) for run in lacking)
        print(
            f"{runs[0].cell}: the GPU has too little memory for seed {seeds} beside others; "
            "it runs again alone.",
            file=sys.stderr,
        )
        with _processes(1) as pool:
            (again,) = pool.map(_train_share, [lacking])
        trained += again or []
    return trained


def _processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, get_context("spawn"), die_with_parent)


def _that_fit(run: Run, most: int) -> int:
    from rapt.tuning.room import seeds_that_fit

    return seeds_that_fit(run, most)


def _together(runs: Sequence[Run]) -> list[Trained]:
    """Train seeds one after the other, each by as many processes as cards."""
    count, others = runs[0].cards, set(active_children())
    with (
        TemporaryDirectory() as scratch,
        _processes(count) as pool,
    ):
        meeting = Path(scratch, "meeting")
        ranks = [pool.submit(_train_rank, rank, count, meeting, runs) for rank in range(count)]
        done, _ = wait(ranks, return_when=FIRST_EXCEPTION)
        failed = [rank for rank in done if rank.exception()]
        if failed:  # for which the other processes would wait
            for process in set(active_children()) - others:
                process.kill()
        return (failed or ranks)[0].result()


def _train_rank(rank: int, count: int, meeting: Path, runs: Sequence[Run]) -> list[Trained]:
    from rapt.tuning import cards

    if rank:  # what it would say the first one says
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    cards.join(rank, count, meeting)
    return runs[0].tuner.train(runs)


def _saved(runs: Sequence[Run]) -> str:
    """Describe where the cell resumes: RAPT_WORKERS may change for that, batch_size may not."""
    from rapt.tuning.checkpoints import Checkpoint

    found = {run.k: Checkpoint(run, device_name()).step() for run in runs}
    steps = ", ".join(f"seed {k} from {step}" for k, step in found.items() if step)
    if not steps:
        return "The next run begins at the first step, as none was saved."
    return (
        f"The next run goes on with {steps} if the parameters are the same, else it begins at the "
        "first step."
    )


def _train_share(runs: Sequence[Run]) -> list[Trained] | None:
    """Train seeds one after the other; None: the GPU lacks memory for them beside others."""
    try:
        return runs[0].tuner.train(runs)
    except RaptError as error:
        # As each line of a device that is out of memory says, and no other.
        if runs[0].beside and "got a device out of memory" in str(error):
            return None
        raise
