"""Which rows of a split make a batch: those alike in length, which saves padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

POOL = 8  # batches among which texts of like length are put together


def shuffled(lengths: Sequence[int], size: int, generator: torch.Generator) -> Iterator[list[int]]:
    """Batches of one epoch: random, but of texts alike in length; the last of a pool is smaller."""
    order = torch.randperm(len(lengths), generator=generator).tolist()
    batches: list[list[int]] = []
    for start in range(0, len(order), POOL * size):
        pool = sorted(order[start : start + POOL * size], key=lambda row: lengths[row])
        batches += [pool[i : i + size] for i in range(0, len(pool), size)]
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def by_length(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Batches for prediction: every row once, longest first."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for start in range(0, len(order), size):
        yield order[start : start + size]
