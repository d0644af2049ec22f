"""The first pass on a GPU: it decides the queries whose nearest rows float32 tells apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from rapt.privacy.neighbours.first_pass import (
    ROWS,
    float32_error,
    halves,
    lengths_of,
    squares_of,
)
from rapt.utils.memmap import walk

SCORES = 1 << 27  # at a time, half a gigabyte
# The precision of products is the whole process's: one computation at a time changes it.
_ONE_AT_A_TIME = threading.Lock()


class DevicePass:
    """The whole table on a device, with −½‖E‖² beside each row, and its greatest scores.

    As in Float32Pass, but that the device only returns the k + 1 greatest scores of a query.
    """

    def __init__(self, vectors: NDArray[np.float32], where: torch.device) -> None:
        """Copy the table, float32 (V, d), to a device."""
        size, dimension = vectors.shape
        self._table = torch.empty(size, dimension + 1, device=where)
        longest = 0.0
        for start, part in walk(vectors, ROWS):
            squares = squares_of(part)
            rows = np.column_stack((part, -halves(squares)))
            self._table[start : start + len(part)] = torch.from_numpy(rows)
            longest = max(longest, squares.max())
        self._longest = float(np.sqrt(longest))

    def nearest(
        self, queries: NDArray[np.float64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the k nearest rows, int64 (n, k), and for which queries they are decided (n,).

        A query is decided if each of its scores lies further above the next than the two errors
        reach, the k-th above the one after it, too. Then float64 orders these rows alike.
        """
        step = max(1, SCORES // len(self._table))
        parts = [self._nearest(queries[i : i + step], k) for i in range(0, len(queries), step)]
        rows, decided = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(decided)

    def _nearest(
        self, queries: NDArray[np.float64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        size, dimension = self._table.shape[0], queries.shape[1]
        error = float32_error(lengths_of(queries), self._longest, dimension)
        extended = np.ones((len(queries), dimension + 1), np.float32)
        extended[:, :-1] = queries
        columns = torch.from_numpy(extended).to(self._table.device)
        with _float32_products():
            best = (columns @ self._table.T).topk(min(k + 1, size))
        scores, rows = best.values.cpu().numpy().astype(np.float64), best.indices.cpu().numpy()
        gaps = scores[:, :-1] - scores[:, 1:]
        # No comparison holds for NaN, nor for an error that is inf.
        return rows[:, :k], np.all(gaps > 2 * error[:, None], axis=1)


@contextmanager
def _float32_products() -> Iterator[None]:
    """Compute products in float32, as the bound of the error supposes: without TF32."""
    how = torch.backends.cuda.matmul
    with _ONE_AT_A_TIME:
        before = how.fp32_precision
        how.fp32_precision = "ieee"
        try:
            yield
        finally:
            how.fp32_precision = before
