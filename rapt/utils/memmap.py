"""Memory-mapped tables that never lie in memory as a whole.

A page of a mapped file counts as the process's memory from its first reading until it is released.
The system may map megabytes around it. So single rows are read from the file instead.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_mapped(table: NDArray[Any]) -> bool:
    """Whether the table is a whole file of rows, mapped for reading (np.load, mmap_mode="r")."""
    return (
        isinstance(table, np.memmap)
        and table.mode == "r"
        and isinstance(table.base, mmap.mmap)  # not a part of another table
        and table.flags.c_contiguous
    )


def give_back(table: NDArray[Any]) -> None:
    """Give the pages of a mapped table back to the system; they come again when read."""
    if is_mapped(table) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        assert isinstance(table.base, mmap.mmap)
        table.base.madvise(mmap.MADV_DONTNEED)


def walk(table: NDArray[Any], rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Parts of this many rows with where each starts; each is given back when the next is due."""
    plain = np.asarray(table)
    for start in range(0, len(plain), rows):
        yield start, plain[start : start + rows]
        give_back(table)


def take(table: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Copy the rows, from 0 to V − 1, (n, …)."""
    if not is_mapped(table):
        return np.asarray(table[rows])
    assert isinstance(table, np.memmap) and table.filename is not None
    taken = np.empty((len(rows), *table.shape[1:]), table.dtype)
    with Path(table.filename).open("rb", buffering=0) as file:
        for row, into in zip(rows.tolist(), taken, strict=True):
            file.seek(table.offset + row * table.strides[0])
            file.readinto(memoryview(into).cast("B"))
    return taken
