"""The k nearest rows: candidates from approximate scores, then exact distances."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.neighbours.first_pass import FirstPassScores, Tile
from rapt.utils.memmap import take

Float = TypeVar("Float", np.float32, np.float64)

ALL = 1 << 18  # pairs held at a time, where all rows are measured: few queries, or a small table
NUMBERS = 1 << 16  # of a chunk of vectors: 512 KiB in float64
CROWDED = 1024  # candidates of one query, above which all its distances are measured


class Pairs(NamedTuple):
    """Pairs of a query and a row.

    Attributes:
        queries: int64 (p,).
        rows: int64 (p,).
        scores: float32 (p,).
    """

    queries: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> Pairs:
        """Select pairs by a mask or by indices."""
        return Pairs(self.queries[keep], self.rows[keep], self.scores[keep])


def nearest(
    vectors: NDArray[np.float32], queries: NDArray[np.float64], scores: FirstPassScores, k: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the k nearest rows, int64 (n, k), and whether the scores decide them (n,)."""
    pairs, decided = candidates(len(queries), len(vectors), scores, k)
    found = np.empty((len(queries), k), np.int64)
    if k == 1:
        single = (np.bincount(pairs.queries, minlength=len(queries)) == 1)[pairs.queries]
        found[pairs.queries[single], 0] = pairs.rows[single]
        pairs = pairs.where(~single)
    squares = distances(vectors, queries, pairs.queries, pairs.rows)
    pairs = pairs.where(np.lexsort((pairs.rows, squares, pairs.queries)))
    rank = _rank(pairs.queries)
    among = rank < k
    found[pairs.queries[among], rank[among]] = pairs.rows[among]
    return found, decided


def candidates(
    n: int, size: int, scores: FirstPassScores, k: int
) -> tuple[Pairs, NDArray[np.bool_]]:
    """Return all rows that can be among the k nearest, and for which queries this holds (n,).

    An approximate score is within `error` of the true one. At least k rows have true scores of the
    k-th greatest approximate score minus `error`. So any row with an approximate score below that
    minus `error` is out. The least of the greatest scores of k groups is at most that score.

    Args:
        n: number of queries.
        size: number of rows.
        scores: the queries' approximate scores.
        k: number of neighbours, at most `size`.
    """
    decided = np.isfinite(scores.error)
    error = np.where(decided, scores.error, 0)
    given = np.full((n, k), -np.inf, np.float32)
    count = np.zeros(n, np.int64)
    parts = []
    for tile in scores.tiles:
        given = _greatest(given, tile.maxima)
        least = _least(given, error, decided)
        pairs = _pairs(tile, least)
        parts.append(pairs.where(pairs.rows < size))
        count += np.bincount(pairs.queries, minlength=len(count))
        decided &= count <= CROWDED
    pairs = Pairs(*(np.concatenate(side) for side in zip(*parts, strict=True)))
    least = _least(given, error, decided)
    return pairs.where(pairs.scores >= least[pairs.queries]), decided


def _least(
    given: NDArray[np.float32],
    error: NDArray[np.float64],
    decided: NDArray[np.bool_],
) -> NDArray[np.float32]:
    """Return the least score of a candidate, (n,); NaN, which no score reaches, if undecided."""
    least = given.min(axis=1) - 2 * error
    down = np.nextafter(least.astype(np.float32), np.float32(-np.inf))
    return np.where(decided, down, np.float32(np.nan))


def _pairs(tile: Tile, least: NDArray[np.float32]) -> Pairs:
    """Return the pairs of a tile that reach the least score of their query."""
    queries, groups = _places(tile.maxima >= least[:, None])
    scores = tile.of_groups(queries, groups)
    pair, member = _places(scores >= least[queries, None])
    return Pairs(queries[pair], tile.rows(groups[pair], member), scores[pair, member])


def _places(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return np.nonzero in memory order, which is several times faster."""
    if mask.flags.c_contiguous:
        line, column = np.divmod(np.flatnonzero(mask), mask.shape[1])
        return line, column
    column, line = np.divmod(np.flatnonzero(mask.T), mask.shape[0])
    return line, column


def _rank(sorted_queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each pair among those of its query, from 0 on."""
    first = np.searchsorted(sorted_queries, sorted_queries)
    return np.arange(len(sorted_queries)) - first


def _greatest(top: NDArray[np.float32], maxima: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the k greatest entries of each row of both arrays, float32 (n, k)."""
    k = top.shape[1]
    if k == 1:  # Several times faster, and the common case.
        return np.maximum(top, maxima.max(axis=1)[:, None])
    return np.partition(np.concatenate([top, maxima], axis=1), -k, axis=1)[:, -k:]


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
    chunk = max(1, NUMBERS // vectors.shape[1])
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
