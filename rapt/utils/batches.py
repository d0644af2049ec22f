"""Batches of things that differ in size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def by_size(items: Iterable[T], size: Callable[[T], int], least: int) -> Iterator[list[T]]:
    """Yield the items in order, as many at a time as make up this size; the rest at the end."""
    batch: list[T] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= least:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
