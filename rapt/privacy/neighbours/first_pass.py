"""The first pass: approximate scores of all rows, in tiles, with error bounds.

The score of row k for the query q is E_k·q − ½‖E_k‖² = ½(‖q‖² − ‖E_k − q‖²). The nearest row has
the greatest score, and a matrix product computes many scores at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rapt.utils.memmap import walk

# Rows in a group; their scores are examined one by one only if the greatest of them matters.
GROUP = 32
# Beyond it products may overflow float32, whose greatest number is 3.4e38.
OVERFLOW = 1e37
# At most 8 MiB of scores at a time, which are read once more while they are in
# cache. Larger products are no faster, and of fewer queries they are slower.
ROWS = 1024
QUERIES = 2048


class Tile:
    """The scores of some consecutive rows, in groups of GROUP.

    Attributes:
        maxima: float32 (n, groups), the greatest score of each group.
    """

    def __init__(self, start: int, scores: NDArray[np.float32]) -> None:
        """Take the scores, float32 (rows, n), of the rows from `start` on."""
        self._start = start
        self._groups = scores.reshape(-1, GROUP, scores.shape[1])
        self.maxima: NDArray[np.float32] = self._groups.max(axis=1).T

    def of_groups(
        self, queries: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the scores of each row of these groups (p,) for these queries (p,), (p, GROUP).

        Rows beyond the table, which pad the last group, have the score −inf.
        """
        return self._groups[groups, :, queries]

    def rows(self, groups: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the table rows of these members of these groups."""
        return self._start + GROUP * groups + members


@dataclass(frozen=True)
class FirstPassScores:
    """The scores of a batch of n queries.

    Attributes:
        error: float64 (n,), bound on the error of any score; inf: unknown.
        tiles: the scores, each tile valid until the next is requested.
    """

    error: NDArray[np.float64]
    tiles: Iterator[Tile]


def float32_error(
    lengths: NDArray[np.float64], longest: float, dimension: int
) -> NDArray[np.float64]:
    """Bound the error of scores that are computed in float32, in any order of summation.

    There are d + 4 roundings of at most 2⁻²⁴ each (Higham, 2002, section 3.1: the order does not
    matter), and numbers below 2⁻¹²⁶ are lost. The exact search's distances are rounded too: see
    distance_error.

    Args:
        lengths: float64 (n,), the norms of the queries.
        longest: the norm of the longest row.
        dimension: d.
    """
    sizes = lengths * longest + longest**2 / 2
    rounded = (dimension + 4) * 2.0**-24 * 1.01 * sizes
    lost = (dimension + 4) * 2.0**-125 * (1 + lengths + longest)
    error: NDArray[np.float64] = rounded + lost + distance_error(lengths, longest, dimension)
    error[~(np.maximum(sizes, lengths + longest) < OVERFLOW)] = np.inf
    return error


def distance_error(
    lengths: NDArray[np.float64], longest: float, dimension: int
) -> NDArray[np.float64]:
    """Bound the rounding error of half a squared distance in float64, or of ½‖q‖² minus it.

    It dominates for queries that are far away, as the search is defined by these distances.
    """
    return (dimension + 8) * 2.0**-53 * (lengths + longest) ** 2


def halves(squares: NDArray[np.float64]) -> NDArray[np.float32]:
    """Compute ½‖E‖² of each row, float32; inf on overflow, as for the error."""
    with np.errstate(over="ignore"):
        return (squares / 2).astype(np.float32)


def lengths_of(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the norms of vectors (n, d), float64 (n,); inf if their squares overflow."""
    return np.sqrt(np.einsum("nd,nd->n", vectors, vectors))


def squares_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute ‖E‖² of each row (V, d), float64 (V,)."""
    return np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64)


class Float32Pass:
    """Score every row of a table: float32 products, each within float32_error.

    The pages of a memory-mapped table are given back after each tile: it never lies in memory as a
    whole. np.asarray(table) keeps them.
    """

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Take the table to search, float32 (V, d): not copied."""
        self._vectors = vectors
        squares = np.concatenate([squares_of(part) for _, part in walk(vectors, ROWS)])
        self._half_squares = halves(squares)
        self._longest = float(np.sqrt(squares.max()))

    def scores(self, queries: NDArray[np.float64]) -> FirstPassScores:
        """Score all rows for the queries, float64 (n, d)."""
        lengths = lengths_of(queries)
        error = float32_error(lengths, self._longest, queries.shape[1])
        # Columns, as products of these are faster, with 1 below each for −½‖E‖².
        columns = np.ones((queries.shape[1] + 1, len(queries)), np.float32)
        columns[:-1] = queries.astype(np.float32).T
        columns[:-1, ~np.isfinite(error)] = 0
        return FirstPassScores(error, self._tiles(columns))

    def _tiles(self, queries: NDArray[np.float32]) -> Iterator[Tile]:
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
            yield Tile(start, scores)
