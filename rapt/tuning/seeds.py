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
    """Train every run of a cell, in as many processes of one thread as RAPT_WORKERS says.

    Without it as many as there are cores; on a GPU one, as each holds a backbone of its own, for
    all its runs. Whatever their number, a run computes the same. The parent loads no torch.
    """
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    context = get_context("spawn")
    if has_gpu():
        os.environ.setdefault("RAPT_WORKERS", "1")
    count = workers(len(runs))
    shares = [runs[i::count] for i in range(count)]
    results: list[dict[str, Any]] = [{}] * len(runs)
    with ProcessPoolExecutor(count, context, die_with_parent) as pool:
        for i, done in enumerate(pool.map(_train, shares)):
            results[i::count] = done
    return results


def _train(runs: Sequence[Run]) -> list[dict[str, Any]]:
    from rapt.tuning.train import train_in_turn

    return train_in_turn(runs)
