"""Which rows of a split make a batch: those alike in length, which saves padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

import torch

from rapt.utils.device import out_of_memory
from rapt.utils.errors import RaptError

T = TypeVar("T")
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


def by_length(lengths: Sequence[int], size: int, *, padded: bool = True) -> Iterator[list[int]]:
    """Batches for prediction: every row once, longest first; those not padded have one length."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for _, group in groupby(order, lambda row: padded or lengths[row]):
        rows = list(group)
        for start in range(0, len(rows), size):
            yield rows[start : start + size]


def each_row(
    batches: Iterable[list[int]], compute: Callable[[list[int]], Iterable[T]], lower: str
) -> list[T]:
    """Compute something of every row, in as many parts of a batch as memory requires.

    Args:
        batches: the rows of each batch; together 0 to n - 1.
        compute: returns what is computed of each of some rows.
        lower: the parameter that makes a single row smaller.

    Returns:
        what is computed of rows 0 to n - 1.

    Raises:
        RaptError: memory does not suffice for one row.
    """

    def computed(rows: list[int]) -> list[T]:
        try:
            return list(compute(rows))
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if len(rows) == 1:
                raise RaptError(
                    f"{lower}: got a device out of memory at one text, expected room for it. "
                    "Lower it."
                ) from None
        half = len(rows) // 2
        return [*computed(rows[:half]), *computed(rows[half:])]

    found: dict[int, T] = {}
    for rows in batches:
        found |= dict(zip(rows, computed(rows), strict=True))
    return [found[row] for row in range(len(found))]
