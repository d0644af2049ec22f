"""Truncated Gumbel noise on the distances to a random number of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import Draws, Rows, Sampler, Space, Vectors, WordMechanism
from rapt.privacy.mechanisms.claim import EUCLIDEAN, Claim, euclidean
from rapt.utils.errors import RaptError

# More neighbours than a Poisson number of mean ln V ≤ 13 is ever drawn from one uniform double.
MOST = 80


@dataclass(frozen=True)
class TruncatedGumbel(WordMechanism):
    """The k nearest words, k Poisson of mean ln V; the least distance plus noise wins.

    As published: α = (η − 2·(1 + ln V)/Δmin)/3, scale 2·Δmax / min(W(2·α·Δmax), ln(α·Δmin)), the
    noise within ±Δmax. Both logarithms need η above (3 + 2·(1 + ln V))/Δmin.
    """

    name = "truncated-gumbel"
    source = "Xu et al., FLAIRS 2021"
    claim = Claim(
        published=EUCLIDEAN,
        caveat="Its list of candidates depends on the word, and a far word is in it with a "
        "probability that falls faster than any exp(-eta * d). So there is no d_X-privacy where "
        "distances are alike, as in word embeddings of many dimensions.",
    )
    uniforms = 1 + MOST  # one for k, one for the noise of each neighbour

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The word of the least noisy distance.

        Raises:
            RaptError: η is too small for the published constants to exist.
        """
        search = space.search()
        least, most = extent(space)
        scale = published_scale(eta, len(space.vectors), least, most)
        numbers = _poisson(len(space.vectors))
        low, high = (_gumbel_cdf(end / scale) for end in (-most, most))

        def release(vectors: Vectors, draws: Draws) -> Rows:
            k = 1 + np.searchsorted(numbers, draws[:, 0], side="right").clip(max=len(numbers) - 1)
            near = search.nearest(vectors, int(k.max(initial=1)))
            noisy = np.full(near.shape, np.inf)
            for rank in range(near.shape[1]):
                at = k > rank
                uniform = low + draws[at, 1 + rank] * (high - low)
                noise = -scale * np.log(-np.log(uniform))
                noisy[at, rank] = euclidean(space.vectors[near[at, rank]], vectors[at]) + noise
            return near[np.arange(len(near)), noisy.argmin(axis=1)]

        return release


def extent(space: Space) -> tuple[float, float]:
    """The least and the greatest distance between two candidates."""
    second = space.search().nearest(space.vectors, min(2, len(space.vectors)))
    # Of duplicates, the row itself may come second.
    least = euclidean(space.vectors[second[:, 0]], space.vectors[second[:, -1]]).min()
    vectors = np.asarray(space.vectors, np.float64)
    squares = np.einsum("vd,vd->v", vectors, vectors)
    step = max(1, (1 << 22) // len(vectors))
    greatest = max(
        (squares[i : i + step, None] + squares - 2 * vectors[i : i + step] @ vectors.T).max()
        for i in range(0, len(vectors), step)
    )
    return float(least), float(np.sqrt(greatest))


def published_scale(eta: float, size: int, least: float, most: float) -> float:
    """The scale b of the noise.

    Raises:
        RaptError: η is too small for it to exist.
    """
    floor = 2 * (1 + np.log(size))
    if not eta * least > 3 + floor:
        needed = (3 + floor) / least if least else np.inf
        raise RaptError(
            f"eta: got {eta:g}, expected a number above {needed:.4g} with truncated-gumbel on this "
            "table."
        )
    from scipy.special import lambertw  # 41 MiB that no other mechanism needs

    alpha = (eta - floor / least) / 3
    return float(2 * most / min(lambertw(2 * alpha * most).real, np.log(alpha * least)))


def _poisson(size: int) -> NDArray[np.float64]:
    """The distribution function of a Poisson number of mean ln V within 1 … V, up to MOST."""
    from scipy.special import gammaln

    k = np.arange(1, min(size, MOST) + 1)
    mass = np.exp(k * np.log(np.log(size)) - gammaln(k + 1))
    return np.cumsum(mass) / mass.sum()


def _gumbel_cdf(x: float) -> float:
    return float(np.exp(-np.exp(-x)))
