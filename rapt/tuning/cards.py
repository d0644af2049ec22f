"""One seed on several cards: each computes its share of a batch, and the gradients are summed.

A process for each card holds the whole model. With dropout 0 the weights are those of one process
but for rounding. The first process saves, scores and reports; the others only take steps.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from rapt.tuning.config import Run
from rapt.utils.device import device
from rapt.utils.errors import RaptError, described

# Longer than the first process takes to score a seed, while the others wait for the next one.
PATIENCE = timedelta(days=7)


def join(rank: int, count: int, meeting: Path) -> None:
    """Make this process one of those that train a seed together, on the card of its number.

    Args:
        rank: its number, from 0 on.
        count: of processes.
        meeting: a file that does not exist yet, by which they find each other.

    Raises:
        RaptError: the machine has fewer cards, or RAPT_DEVICE names one of them.
    """
    where = device()
    cards = {"cuda": torch.cuda.device_count(), "cpu": count}.get(where.type, 1)
    if count > cards or where.index is not None:
        named = os.environ.get("RAPT_DEVICE") or where.type
        most = 1 if where.index is not None else cards
        raise RaptError(f"RAPT_CARDS: got {count}, expected at most {most} with device {named}.")
    if where.type == "cuda":
        os.environ["RAPT_DEVICE"] = f"cuda:{rank}"
        device()  # becomes the current one
    # All processes are on this machine, so nothing else need reach them.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    dist.init_process_group(
        "nccl" if where.type == "cuda" else "gloo",
        init_method=meeting.absolute().as_uri(),
        timeout=PATIENCE,
        world_size=count,
        rank=rank,
    )


def _are_several() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """Return this process's number among those of its seed; 0 is the first, and one alone."""
    return dist.get_rank() if _are_several() else 0


def count() -> int:
    """Return how many processes train this seed."""
    return dist.get_world_size() if _are_several() else 1


def begin_step(run: Run, step: int) -> None:
    """Give each of several processes random numbers of its own for a step, as for dropout.

    They depend on the step alone, so a checkpoint need not hold the generators of all processes.
    """
    if _are_several():
        state = np.random.SeedSequence([run.seed, run.k, rank(), step]).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0]))


def total(parts: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor | None]:
    """Sum tensors over the processes of a seed; one that is None in all of them stays None.

    Args:
        parts: those of this process.
        like: tensors of their shapes, types and device.

    Raises:
        RaptError: another process no longer answers.
    """
    if not _are_several():
        return list(parts)
    flat = [
        (torch.zeros_like(same) if part is None else part).flatten().float()
        for part, same in zip(parts, like, strict=True)
    ]
    has = torch.tensor([part is not None for part in parts], dtype=torch.float32)
    sums = torch.cat([*flat, has.to(flat[0].device)])
    try:
        dist.all_reduce(sums)
    except RuntimeError as error:
        raise RaptError(
            f"RAPT_CARDS: got a process that no longer answers ({described(error)}), expected all "
            f"{count()}. The next run goes on from the last checkpoint, if there is one."
        ) from None
    *found, anywhere = sums.split([*map(len, flat), len(parts)])
    # Only where one is missing the host has to wait for a card to say whether others have it.
    here = [part is not None for part in parts]
    exists = here if all(here) else anywhere.tolist()
    return [
        each.view_as(same).to(same.dtype) if there else None
        for each, same, there in zip(found, like, exists, strict=True)
    ]
