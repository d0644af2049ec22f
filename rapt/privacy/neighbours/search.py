"""The exact search: a first pass in float32, and float64 for what it leaves open."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.neighbours import candidates
from rapt.privacy.neighbours.first_pass import GROUP, QUERIES, Float32Pass
from rapt.privacy.neighbours.threads import blas_threads, side_by_side
from rapt.utils.device import device, has_gpu
from rapt.utils.memmap import is_mapped

if TYPE_CHECKING:
    from rapt.privacy.neighbours.device_pass import DevicePass

# Products of two numbers, after which a GPU is worth its start: two cores take some seconds.
WORTH = 1 << 38


class ExactSearch:
    """The rows of a table nearest to queries by the distance in float64, the lower row at a tie.

    A first pass scores all rows, with a bound on its error. Rows that the bound cannot separate
    are decided in float64, so the result does not depend on the number of threads, nor on whether a
    GPU scores the rows.
    """

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Take the table to search.

        Args:
            vectors: float32 (V, d), finite, at least one row. Not copied; read from the disk tile
                by tile where it is memory-mapped (np.asarray of it lets it stay in memory).

        Raises:
            ValueError: there is no row.
        """
        if not len(vectors):
            raise ValueError("vectors: got 0 rows, expected 1 or more.")
        if not is_mapped(vectors):
            vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._first_pass = Float32Pass(vectors)
        self._vectors, self._products = vectors, 0

    def __call__(self, queries: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """The row of the nearest vector to each query (n, d), int64 (n,)."""
        return self.nearest(queries, 1)[:, 0]

    def nearest(self, queries: NDArray[np.floating[Any]], k: int) -> NDArray[np.int64]:
        """The k nearest rows to each query (n, d), the nearest first, int64 (n, k).

        Raises:
            ValueError: k is not between 1 and the number of rows.
        """
        if not 1 <= k <= len(self._vectors):
            raise ValueError(f"k: got {k}, expected 1 to {len(self._vectors)}, the table's rows.")
        device_pass = self._on_device(len(queries))
        if device_pass is None:
            return self._on_cpu(queries, k)
        with np.errstate(over="ignore", invalid="ignore"):
            rows, decided = device_pass.nearest(np.asarray(queries, dtype=np.float64), k)
        rows[~decided] = self._on_cpu(queries[~decided], k)
        return rows

    def _on_device(self, count: int) -> DevicePass | None:
        """Return the first pass on a GPU, if there is one and so many more queries are worth it."""
        self._products += count * self._vectors.size
        if self._products < WORTH or self._device_pass is None:
            return None
        import torch

        # CUDA does not work in a fork of a process that uses it.
        return None if torch.cuda._is_in_bad_fork() else self._device_pass

    @cached_property
    def _device_pass(self) -> DevicePass | None:
        if not has_gpu():
            return None  # without the seconds that torch takes to import
        from rapt.privacy.neighbours.device_pass import DevicePass

        where = device()
        # Nothing bounds the error of a product on Apple's GPU.
        return DevicePass(self._vectors, where) if where.type == "cuda" else None

    def _on_cpu(self, queries: NDArray[np.floating[Any]], k: int) -> NDArray[np.int64]:
        if not len(queries):
            return np.empty((0, k), np.int64)
        # Every thread gets some even of few queries.
        size = min(QUERIES, -(-len(queries) // blas_threads()))
        parts = [queries[i : i + size] for i in range(0, len(queries), size)]
        return np.concatenate(side_by_side(lambda part: self._nearest(part, k), parts))

    def _nearest(self, part: NDArray[np.floating[Any]], k: int) -> NDArray[np.int64]:
        queries = np.asarray(part, dtype=np.float64)
        rows = np.empty((len(queries), k), np.int64)
        left = np.arange(len(queries))
        # A bound that overflows leaves its queries to the distances.
        with np.errstate(over="ignore", invalid="ignore"):
            # Where most groups hold one of the k, the first pass would leave all rows.
            if k * GROUP <= len(self._vectors):
                scores = self._first_pass.scores(queries)
                rows, decided = candidates.nearest(self._vectors, queries, scores, k)
                left = left[~decided]
            rows[left] = candidates.nearest_of_all(self._vectors, queries[left], k)
        return rows
