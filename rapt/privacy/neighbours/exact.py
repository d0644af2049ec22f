"""Distances of pairs: in float64, which the search is defined by, or in float32 with a bound."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rapt.utils.memmap import take

Float = TypeVar("Float", np.float32, np.float64)

ALL = 1 << 18  # pairs held at a time, where all rows are measured: few queries, or a small table
PAIRS = 1 << 16  # numbers in a chunk of vectors: 512 KiB in float64


def distances(
    vectors: NDArray[np.float32],
    queries: NDArray[Float],
    which: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[Float]:
    """The squared distances of pairs of a query and a row, (p,), the same in any company.

    Args:
        vectors: float32 (V, d), the table.
        queries: (n, d), float64, or float32 for distances in float32.
        which: int64 (p,), the query of each pair.
        rows: int64 (p,), its row.
    """
    chunk = max(1, PAIRS // vectors.shape[1])
    squares = np.empty(len(rows), queries.dtype)
    for start in range(0, len(squares), chunk):
        part = slice(start, start + chunk)
        offsets = take(vectors, rows[part]).astype(queries.dtype, copy=False)
        offsets -= queries[which[part]]
        squares[part] = np.einsum("pd,pd->p", offsets, offsets)
    return squares


def nearest_of_all(
    vectors: NDArray[np.float32], queries: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """The k nearest rows to each query (n, d), int64 (n, k), by the distances to all rows."""
    size = len(vectors)
    nearest = np.empty((len(queries), k), np.int64)
    step = max(1, ALL // size)
    for start in range(0, len(queries), step):
        part = queries[start : start + step]
        which = np.repeat(np.arange(len(part)), size)
        squares = distances(vectors, part, which, np.tile(np.arange(size), len(part)))
        order = squares.reshape(len(part), size).argsort(axis=1, kind="stable")
        nearest[start : start + step] = order[:, :k]
    return nearest
