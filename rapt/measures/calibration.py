"""Calibration: the largest η that still gives a wanted protection, for one table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.channel import Rows, estimate, noise_of
from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer
from rapt.utils.memmap import take

SCORES = 1 << 22  # of pairs of a draw and a candidate, held at a time: 16 MiB in float32
PAIRS = 1 << 12  # of them decided at a time
# Where η cannot be had in closed form it is searched for, to 1 %.
LEAST, MOST, STEP = 1e-2, 1e5, 1.01


@dataclass(frozen=True)
class Calibrated:
    """An η with its 95 % confidence interval; inf: no η is too large, 0: none is small enough."""

    eta: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Curve:
    """How often a mechanism keeps each of some words of its table, as a function of η.

    Attributes:
        rows: int64 (n,), the words.
        draws: of each word; a draw's noise is the same at every η but for its scale.
        etas: float64, ascending, the η among which `largest` chooses.
        kept: for an η, the draws that leave each word as it is, int64 (n,).
    """

    rows: Rows
    draws: int
    etas: NDArray[np.float64]
    kept: Callable[[float], Rows]

    def shares(self, eta: float) -> NDArray[np.float64]:
        """The share of each word's draws that replace it."""
        return 1 - self.kept(eta) / self.draws


def largest(holds: Callable[[float], bool], etas: NDArray[np.float64]) -> float:
    """Return the largest of some η for which `holds`, which is true up to some η and not above.

    Args:
        holds: asked for about log2 of their number.
        etas: float64, ascending.

    Returns:
        0: it is true for none of them; inf: for all.
    """
    count = bisect_left(etas, True, key=lambda eta: not holds(float(eta)))
    if count == 0:
        return 0.0
    return float(etas[count - 1]) if count < len(etas) else np.inf


def grid(least: float = LEAST, most: float = MOST) -> NDArray[np.float64]:
    """Return η from the least to the most in steps of 1 %, float64 (n,)."""
    return np.geomspace(least, most, int(np.log(most / least) / np.log(STEP)) + 1)


def critical_curve(rows: Rows, critical: NDArray[np.float64]) -> Curve:
    """The exact curve of noise and nearest neighbour: each draw keeps its word from an η* on.

    At η the noise is z/η. Word w stays the nearest iff ‖E_w + z/η − E_y‖ ≥ ‖z/η‖ for every other
    candidate y, that is iff η ≥ η* = max_y 2·(E_y − E_w)·z / ‖E_y − E_w‖².

    Args:
        rows: the words, int64 (n,).
        critical: η* of their draws, float64 (n, draws).
    """

    def kept(eta: float) -> Rows:
        return np.asarray((critical <= eta).sum(axis=1), np.int64)

    etas = np.unique(critical[np.isfinite(critical) & (critical > 0)])
    return Curve(rows, critical.shape[1], etas, kept)


def simulated_curve(at: Callable[[float], Privatizer], rows: Rows, draws: int, seed: int) -> Curve:
    """The curve of any mechanism: the same draws again at each η of `grid`."""
    rows = np.unique(rows)

    @cache
    def kept(eta: float) -> Rows:
        return estimate(at(eta), rows, draws, seed).kept

    return Curve(rows, draws, grid(), kept)


def curve_over(anywhere: Privatizer, rows: Rows, draws: int, seed: int) -> Curve:
    """The curve over these words, int64 (n,), ascending: exact where there is a closed form.

    Args:
        anywhere: the privatizer at inf.
        rows: of its candidates.
        draws: of each word.
        seed: of the noise.
    """
    if isinstance(anywhere.mechanism, T2T):
        return critical_curve(rows, critical_etas(anywhere, rows, draws, seed))
    return simulated_curve(anywhere.at, rows, draws, seed)


def critical_etas(privatizer: Privatizer, rows: Rows, draws: int, seed: int) -> NDArray[np.float64]:
    """η* of each draw of each word, float64 (n, draws): what `critical_curve` takes.

    Args:
        privatizer: of a mechanism that adds draw/η and takes the nearest candidate.
        rows: int64 (n,), candidates.
        draws: of each word, from the streams of `estimate`.
        seed: of the noise.
    """
    table = privatizer.table
    result = np.empty((len(rows), draws))
    groups = np.array(privatizer.groups_of_rows(rows))
    for group in np.unique(groups):
        candidates = privatizer.rows_of(int(group))
        criticals = _Criticals(take(table.vectors, candidates))
        (own,) = np.nonzero(groups == group)
        for at in _batches(own, draws * len(candidates)):
            noise = np.stack(
                [
                    privatizer.mechanism.draw(
                        noise_of(seed, table.words[row]), draws, table.dimension
                    )
                    for row in rows[at]
                ]
            )
            result[at] = criticals(np.searchsorted(candidates, rows[at]), noise)
    return result


def _batches(own: Rows, scores: int) -> Iterator[Rows]:
    step = max(1, SCORES // scores)
    return (own[start : start + step] for start in range(0, len(own), step))


class _Criticals:
    """η* of noise on candidates of one group.

    A float32 matrix product finds which candidates may be the greatest, by a bound on its error.
    Those are decided in float64, so results depend on neither batches nor threads.
    """

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Take the candidates, float32 (V, d)."""
        self._vectors = vectors
        # By a power of 2, so that no square over- or underflows; which is greatest stays the same.
        self._scaled = np.ldexp(vectors, -int(np.frexp(np.abs(vectors).max())[1]))
        self._squares = np.einsum("vd,vd->v", self._scaled, self._scaled)

    def __call__(self, places: Rows, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """η* of noise (b, k, d) on the candidates at some places (b,), float64 (b, k)."""
        pairs = self._close(places, noise)
        result = np.zeros(noise.shape[:2])
        for start in range(0, len(pairs), PAIRS):
            at = np.unravel_index(pairs[start : start + PAIRS], (*result.shape, len(self._vectors)))
            word, draw, near = at
            np.maximum.at(result, (word, draw), self._exact(places[word], near, noise[word, draw]))
        return result

    def _exact(self, own: Rows, near: Rows, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """The η from which on each own (p,) is as near as its rival, with noise (p, d)."""
        offsets = self._vectors[near].astype(np.float64) - self._vectors[own]
        along = np.einsum("pd,pd->p", offsets, noise)
        apart = np.einsum("pd,pd->p", offsets, offsets)
        # Of words with one vector the lower row is released, at every η.
        same = np.where(near < own, np.inf, 0.0)
        return np.where(apart > 0, 2 * along / np.where(apart > 0, apart, 1), same)

    def _close(self, places: Rows, noise: NDArray[np.float64]) -> Rows:
        """Which (word, draw, candidate) may be the greatest of their draw, as flat indices."""
        (words, draws, dimension), own = noise.shape, self._scaled[places]
        unit = np.float32((dimension + 4) * 2.0**-24 * 1.01)  # of sums of products: Higham, 2002
        reach = np.sqrt(self._squares.max()) + np.sqrt(self._squares[places])

        products = noise.reshape(-1, dimension).astype(np.float32) @ self._scaled.T
        products = products.reshape(words, draws, -1)
        products -= np.einsum("bkd,bd->bk", noise, own).astype(np.float32)[:, :, None]
        products[np.arange(words), :, places] = -np.inf  # the word itself is no other
        lengths = np.linalg.norm(noise, axis=2).astype(np.float32)
        error = (unit * lengths * reach[:, None])[:, :, None]
        apart = self._squares + self._squares[places][:, None] - 2 * (own @ self._scaled.T)
        blur = (unit * reach**2)[:, None]

        tiny = np.finfo(np.float32).tiny
        bound = products - error
        bound *= (2 / np.maximum(apart + blur, tiny))[:, None]
        # Less the roundings of these very steps.
        least = np.maximum(bound.max(axis=2), 0) * np.float32(1 - 1e-6)
        with np.errstate(over="ignore"):
            np.add(products, error, out=bound)
            bound *= (2 / np.maximum(apart - blur, tiny))[:, None]
        return np.flatnonzero(bound >= least[:, :, None])
