"""Decisions in float64: what the search is defined by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rapt.mapped import take

ALL = 1 << 18  # pairs held at a time, where all rows are measured: few queries, or a small table
PAIRS = 1 << 16  # numbers in a chunk of vectors: 512 KiB in float64


def distances(
    vectors: NDArray[np.float32],
    queries: NDArray[np.float64],
    which: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The squared distances of pairs of a query and a row, float64 (p,), the same in any company.

    Args:
        vectors: float32 (V, d), the table.
        queries: float64 (n, d).
        which: int64 (p,), the query of each pair.
        rows: int64 (p,), its row.
    """
    chunk = max(1, PAIRS // vectors.shape[1])
    squares = np.empty(len(rows))
    for start in range(0, len(squares), chunk):
        part = slice(start, start + chunk)
        offsets = take(vectors, rows[part]).astype(np.float64)
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
