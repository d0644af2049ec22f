"""The exact nearest neighbours of many queries, by matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SCORES = 1 << 25  # scores held at a time: 128 MiB in float32


class ExactSearch:
    """argmin_k ‖E_k − q‖ = argmax_k (E_k·q − ½‖E_k‖²): one float32 matrix product for each batch.

    A product's rounding depends on its batch and its threads; rows whose winner it cannot separate
    from the next are decided in float64 (the lower row at a true tie), so results never do.
    """

    def __init__(self, vectors: NDArray[np.float32], *, device: str = "cpu") -> None:
        """Take the table to search, float32 (V, d)."""
        self._vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        squares = np.einsum("vd,vd->v", self._vectors, self._vectors, dtype=np.float64)
        self._half_squares = (squares / 2).astype(np.float32)
        self._longest = float(np.sqrt(squares.max()))

    def __call__(self, queries: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """The row of the nearest vector to each query (n, d), int64 (n,)."""
        batch = max(1, SCORES // len(self._vectors))
        parts = [self._nearest(queries[i : i + batch]) for i in range(0, len(queries), batch)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def nearest(self, queries: NDArray[np.floating[Any]], k: int) -> NDArray[np.int64]:
        """The rows of the k nearest vectors to each query, nearest first, int64 (n, k)."""
        found = np.empty((len(queries), k), np.int64)
        for i, query in enumerate(queries):
            offsets = self._vectors.astype(np.float64) - query
            found[i] = np.einsum("vd,vd->v", offsets, offsets).argsort(kind="stable")[:k]
        return found

    def _nearest(self, queries: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        scores = queries.astype(np.float32) @ self._vectors.T
        scores -= self._half_squares
        every = np.arange(len(queries))
        rows = scores.argmax(axis=1)
        best = scores[every, rows]
        scores[every, rows] = -np.inf
        margin = 2 * self._rounding(queries)
        for i in np.flatnonzero(best - scores.max(axis=1) <= margin):
            scores[i, rows[i]] = best[i]
            near = np.flatnonzero(scores[i] >= best[i] - margin[i])
            offsets = self._vectors[near].astype(np.float64) - queries[i]
            rows[i] = near[np.einsum("kd,kd->k", offsets, offsets).argmin()]
        return rows

    def _rounding(self, queries: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """A bound on a score's float32 error: d + 4 roundings of at most 2⁻²⁴ (Higham, 2002)."""
        unit = (queries.shape[1] + 4) * 2.0**-24 * 1.01
        lengths = np.linalg.norm(queries, axis=1)
        return unit * (lengths * self._longest + self._longest**2 / 2)
