"""What a first pass gives: approximate scores of every row, tile by tile, with a bound on errors.

The score of row k for the query q is E_k·q − ½‖E_k‖² = ½(‖q‖² − ‖E_k − q‖²): the nearest row has
the greatest one, and a matrix product gives the scores of many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Rows whose scores are looked at one by one only where the greatest of them matters.
GROUP = 32
# Beyond it products may overflow float32, whose greatest number is 3.4e38.
OVERFLOW = 1e37


class Tile(Protocol):
    """The scores of some consecutive rows, in groups of GROUP.

    Attributes:
        maxima: float32 (n, groups), the greatest score of each group.
    """

    maxima: NDArray[np.float32]

    def of_groups(
        self, queries: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The scores of each row of these groups (p,) for these queries (p,), (p, GROUP).

        A row beyond the table, which fills the last group, has the score −inf.
        """

    def rows(self, groups: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that are these members of these groups."""


@dataclass(frozen=True)
class Scores:
    """The scores of a batch of n queries.

    Attributes:
        error: float64 (n,), no score is further from the true one; inf: nothing is known.
        half_squares: float64 (n,), ½‖q‖², from the origin that the scores are taken from.
        finer: float64 (n,), a bound on the error of half a squared distance in float32; None where
            `error` is about that. Else it leaves many candidates, which such distances thin out.
        tiles: the scores, each tile valid until the next is asked for.
    """

    error: NDArray[np.float64]
    half_squares: NDArray[np.float64]
    finer: NDArray[np.float64] | None
    tiles: Iterator[Tile]


class FirstPass(Protocol):
    """A way to score every row of a table."""

    batch: int  # queries to score at a time, at most
    concurrent: bool  # whether several threads score a batch each; else it uses all cores for one

    def scores(self, queries: NDArray[np.float64]) -> Scores:
        """The scores for the queries, float64 (n, d)."""


def float32_error(
    lengths: NDArray[np.float64], longest: float, dimension: int
) -> NDArray[np.float64]:
    """A bound on the error of scores that are computed in float32, in whatever order.

    d + 4 roundings of at most 2⁻²⁴ each (Higham, 2002, section 3.1: the order does not matter),
    and numbers below 2⁻¹²⁶ that are lost altogether. The distances of the decision are rounded
    too: distance_error.

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


def float32_distance_error(
    lengths: NDArray[np.float64], longest: float, dimension: int
) -> NDArray[np.float64]:
    """A bound on the error of half a squared distance that is computed in float32.

    In each dimension the query and the difference are rounded, which the square doubles, and then
    d squares and their sum; numbers below 2⁻¹²⁶ are lost. See float32_error, also for arguments.
    """
    squares = (lengths + longest) ** 2
    rounded = (dimension + 4) * 2.0**-24 * 1.01 * squares / 2
    error: NDArray[np.float64] = rounded + (dimension + 4) * 2.0**-125 * (1 + lengths + longest)
    error += distance_error(lengths, longest, dimension)
    error[~(squares < OVERFLOW)] = np.inf
    return error


def distance_error(
    lengths: NDArray[np.float64], longest: float, dimension: int
) -> NDArray[np.float64]:
    """A bound on the rounding of half a squared distance in float64, or of ½‖q‖² less it.

    It is what counts where queries are far away: the search is defined by these distances.
    """
    return (dimension + 8) * 2.0**-53 * (lengths + longest) ** 2


def halves(squares: NDArray[np.float64]) -> NDArray[np.float32]:
    """½‖E‖² of each row, float32; inf where it overflows, as the error then does."""
    with np.errstate(over="ignore"):
        return (squares / 2).astype(np.float32)


def lengths_of(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The norms of vectors (n, d), float64 (n,); inf where their squares overflow."""
    return np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
