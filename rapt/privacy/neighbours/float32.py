"""The first pass of every machine: float32 products by numpy, in tiles that stay in cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.neighbours.first_pass import GROUP, Scores, float32_error, halves, lengths_of
from rapt.utils.memmap import walk

# At most 8 MiB of scores at a time, which are read once more while they are in cache. Larger
# products are no faster, and of fewer queries they are slower.
ROWS = 1024
QUERIES = 2048


class Float32Tile:
    """Scores with a line for each row of the table: a group is GROUP lines."""

    def __init__(self, start: int, scores: NDArray[np.float32]) -> None:
        """Take the scores, float32 (rows, n), of the rows from `start` on."""
        self._start = start
        self._groups = scores.reshape(-1, GROUP, scores.shape[1])
        self.maxima: NDArray[np.float32] = self._groups.max(axis=1).T

    def of_groups(
        self, queries: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """See Tile."""
        return self._groups[groups, :, queries]

    def rows(self, groups: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.int64]:
        """See Tile."""
        return self._start + GROUP * groups + members


class Float32Pass:
    """Scores of float32, each within float32_error.

    The pages of a memory-mapped table are given back after each tile: it never lies in memory as a
    whole. np.asarray(table) keeps them.
    """

    batch = QUERIES
    concurrent = True

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Take the table to search, float32 (V, d): not copied."""
        self._vectors = vectors
        squares = np.concatenate([_squares(part) for _, part in walk(vectors, ROWS)])
        self._half_squares = halves(squares)
        self._longest = float(np.sqrt(squares.max()))

    def scores(self, queries: NDArray[np.float64]) -> Scores:
        """See FirstPass."""
        lengths = lengths_of(queries)
        error = float32_error(lengths, self._longest, queries.shape[1])
        # Columns, as products of these are faster, with 1 below each for −½‖E‖².
        columns = np.ones((queries.shape[1] + 1, len(queries)), np.float32)
        columns[:-1] = queries.astype(np.float32).T
        columns[:-1, ~np.isfinite(error)] = 0
        return Scores(error, lengths**2 / 2, None, self._tiles(columns))

    def _tiles(self, queries: NDArray[np.float32]) -> Iterator[Float32Tile]:
        whole_groups = -(-min(ROWS, len(self._vectors)) // GROUP) * GROUP
        scores = np.empty((whole_groups, queries.shape[1]), np.float32)
        # A copy of each part beside its −½‖E‖² costs less than to subtract that from all scores.
        extended = np.empty((whole_groups, len(queries)), np.float32)
        for start, part in walk(self._vectors, ROWS):
            table = extended[: len(part)]
            table[:, :-1] = part
            table[:, -1] = -self._half_squares[start : start + len(part)]
            np.matmul(table, queries, out=scores[: len(part)])
            scores[len(part) :] = -np.inf
            yield Float32Tile(start, scores)


def _squares(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64)
