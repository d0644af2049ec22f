"""Training of a cell's seeds in parallel, in processes of one thread each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from multiprocessing import get_context

from rapt.tuning.config import Run, Trained
from rapt.utils.device import device_name, has_gpu
from rapt.utils.errors import RaptError
from rapt.utils.process import die_with_parent, workers


def train_cell(runs: Sequence[Run]) -> list[Trained]:
    """Train every run of a cell, in RAPT_WORKERS processes of one thread.

    By default there are as many processes as cores, or one on a GPU, as each holds its own
    backbone. The number of processes does not change the results. The parent does not load torch.

    Raises:
        RaptError: as `train_seed`, or a process was killed.
    """
    if has_gpu() and not runs[0].tuner.reads_words:
        os.environ.setdefault("RAPT_WORKERS", "1")
    count = workers(len(runs))
    shares = [runs[i::count] for i in range(count)]
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    try:
        with ProcessPoolExecutor(count, get_context("spawn"), die_with_parent) as pool:
            trained = list(chain.from_iterable(pool.map(_train_share, shares)))
    except BrokenProcessPool:
        lower = f"Set RAPT_WORKERS below {count}, or lower" if count > 1 else "Lower"
        raise RaptError(
            f"{runs[0].cell}: got a killed process, as when memory does not suffice, expected all "
            f"to end by themselves. {lower} batch_size or max_tokens. {_saved(runs)}"
        ) from None
    return sorted(trained, key=lambda one: one.result.seed)


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


def _train_share(runs: Sequence[Run]) -> list[Trained]:
    return runs[0].tuner.train(runs)
