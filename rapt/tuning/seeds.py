"""The seeds of a cell, side by side in processes of one thread each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from rapt.process import die_with_parent, has_gpu, workers
from rapt.tuning.config import Run


def train_all(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Train every run in a process of its own kind, as many at a time as RAPT_WORKERS says.

    Without it as many as there are cores; on a GPU one, as each holds a backbone of its own.
    Whatever their number, a run computes the same: each has one thread. The parent loads no torch.
    """
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    context = get_context("spawn")
    if has_gpu():
        os.environ.setdefault("RAPT_WORKERS", "1")
    with ProcessPoolExecutor(workers(len(runs)), context, die_with_parent) as pool:
        return list(pool.map(_train, runs))


def _train(run: Run) -> dict[str, Any]:
    from rapt.tuning.train import train

    return train(run)
