"""Noise with density proportional to exp(−η‖z‖), then a word chosen by the noisy vector alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import (
    Distances,
    Draws,
    Rows,
    Sampler,
    Space,
    Vectors,
    WordMechanism,
    check,
    parameter,
)
from rapt.privacy.mechanisms.claim import EUCLIDEAN, REAL, TABLE, Claim, Metric, euclidean


def spherical_noise(rng: np.random.Generator, n: int, dimension: int) -> NDArray[np.float64]:
    """Draw n noise vectors at η = 1, float64 (n, d), for the Euclidean metric; divide them by η.

    z = l·v with l ~ Gamma(d, scale 1) and v uniform on the unit *sphere* (Feyisetan et al., 2020).
    A draw from the ball, as some papers write, would not have the density exp(−‖z‖).
    """
    direction = rng.standard_normal((n, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.standard_gamma(dimension, size=(n, 1))
    return radius * direction


def noisy(vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
    """Vectors with their noise, float64 (n, d), in the memory of one copy."""
    sums: NDArray[np.float64] = draws / eta
    sums += vectors
    return sums


TOGETHER = 64  # words whose neighbours are found at once
NOISE = ("noise", "sphere", "nearest-word")  # the lemmas that all of them rest on


class NoiseMechanism(WordMechanism):
    """A mechanism that draws spherical noise at η = 1 for each word, then its uniform numbers."""

    uniforms = 0

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw noise and uniform numbers, (n, d + uniforms)."""
        noise = spherical_noise(rng, n, dimension)
        return np.hstack([noise, super().draw(rng, n, dimension)]) if self.uniforms else noise

    def standard(self, space: Space, noise: Vectors) -> Vectors:
        """Undo the shape that the noise (n, d) has over a space: it is then spherical."""
        return noise


@dataclass(frozen=True)
class T2T(NoiseMechanism):
    """Text-to-text privatization: every word, nearest neighbour in the whole table."""

    name = "t2t"
    source = "Feyisetan et al., 2020"
    claim = Claim(EUCLIDEAN, NOISE, conditions=(TABLE, REAL))
    categories = "none"

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The nearest word to the vector plus noise."""
        search = space.search()
        return lambda vectors, draws: search(noisy(vectors, draws, eta))


@dataclass(frozen=True)
class PCT2T(T2T):
    """POS-constrained T2T: words of the chosen categories, each within its category."""

    name = "pct2t"
    source = "RAPT, arXiv 2305.06212"
    claim = T2T.claim.within_categories()
    categories = "required"


def _mahalanobis(made: Mahalanobis, space: Space, one: Vectors, other: Vectors) -> Distances:
    difference = np.asarray(one, np.float64) - other
    return np.linalg.norm(np.linalg.solve(made.shape(space), difference.T), axis=0)


@dataclass(frozen=True)
class Mahalanobis(NoiseMechanism):
    """T2T with noise that follows the shape of the embedding space.

    Noise Σ_λ^½·z, with Σ_λ = λ·Σ + (1 − λ)·I and Σ the covariance of the space, scaled to trace d.
    Its density is proportional to exp(−η‖z‖) in the Mahalanobis norm of Σ_λ.
    """

    name = "mahalanobis"
    source = "Xu et al., 2020, arXiv 2010.11947"
    claim = Claim(
        Metric("Mahalanobis distance of word embeddings (weight {weight})", _mahalanobis),
        (*NOISE, "mahalanobis"),
        conditions=(TABLE, REAL),
    )
    weight: float = parameter(0.2, "λ, of the covariance against the identity; 0: T2T")

    def __post_init__(self) -> None:
        # At 1 a singular covariance would leave directions without any noise.
        check("weight", self.weight, "a number of at least 0 and below 1", 0 <= self.weight < 1)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The nearest word to the vector plus shaped noise."""
        search, shape = space.search(), self.shape(space)
        return lambda vectors, draws: search(vectors + draws @ shape.T / eta)

    def standard(self, space: Space, noise: Vectors) -> Vectors:
        """See NoiseMechanism."""
        return np.linalg.solve(self.shape(space), noise.T).T

    def shape(self, space: Space) -> NDArray[np.float64]:
        """L with L·Lᵀ = Σ_λ: the noise L·z has the norm of z in the Mahalanobis norm."""
        dimension = space.vectors.shape[1]
        covariance = np.cov(space.vectors, rowvar=False, dtype=np.float64).reshape(dimension, -1)
        covariance *= dimension / np.trace(covariance)
        regular = self.weight * covariance + (1 - self.weight) * np.eye(dimension)
        return np.asarray(np.linalg.cholesky(regular), np.float64)


@dataclass(frozen=True)
class Vickrey(NoiseMechanism):
    """The nearest or the second nearest word to the noisy vector, at random.

    The nearest with probability (1 − t)·a₂ / (t·a₁ + (1 − t)·a₂), a₁ and a₂ the two distances. Both
    are found from the noisy vector alone; versions that leave the true word out are not private.
    """

    name = "vickrey"
    source = "Xu et al., 2021, arXiv 2104.11838"
    claim = Claim(EUCLIDEAN, (*NOISE, "vickrey"), conditions=(TABLE, REAL))
    uniforms = 1
    threshold: float = parameter(0.5, "t, how much the second nearest is favoured; 0: T2T")

    def __post_init__(self) -> None:
        check("threshold", self.threshold, "a number from 0 to 1", 0 <= self.threshold <= 1)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """One of the two words nearest to the vector plus noise."""
        search = space.search()

        def release(vectors: Vectors, draws: Draws) -> Rows:
            sums = noisy(vectors, draws[:, :-1], eta)
            found = search.nearest(sums, min(2, len(space.vectors)))  # of one word it is both
            first, second = found[:, 0], found[:, -1]
            near = (1 - self.threshold) * euclidean(space.vectors[second], sums)
            far = self.threshold * euclidean(space.vectors[first], sums)
            return np.where(draws[:, -1] * (near + far) < near, first, second)

        return release


@dataclass(frozen=True)
class RankNeighbours(NoiseMechanism):
    """T2T, then a word near to its outcome, by rank: P ∝ exp(−c·η·rank).

    In high dimensions T2T either keeps a word or replaces it by one from anywhere; close words are
    rare. The second step brings them back. It reads the outcome alone, so it costs no privacy.
    """

    name = "rank-neighbours"
    source = "Asghar, Carpentier, Zhao, Kaafar, PoPETs 2026, arXiv 2411.13784"
    claim = Claim(EUCLIDEAN, (*NOISE, "rank-neighbours"), conditions=(TABLE, REAL))
    uniforms = 1
    c: float = parameter(0.007, "how fast the probability falls with the rank; larger: T2T")

    def __post_init__(self) -> None:
        check("c", self.c, "a number above 0", self.c > 0)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The word of a geometric rank among the neighbours of the word nearest to the noise."""
        search, size = space.search(), len(space.vectors)
        decay = -self.c * eta

        def release(vectors: Vectors, draws: Draws) -> Rows:
            pivots = search(noisy(vectors, draws[:, :-1], eta))
            # The inverse of the truncated geometric distribution function.
            ranks = np.log1p(draws[:, -1] * np.expm1(decay * size)) / decay
            ranks = np.minimum(ranks.astype(np.int64), size - 1)
            # Distance 0 to itself: rank 0 is the pivot, of duplicates the lowest row.
            released, further = pivots.copy(), np.argsort(ranks, kind="stable")
            further = further[ranks[further] > 0]
            for start in range(0, len(further), TOGETHER):  # of like ranks
                rows = further[start : start + TOGETHER]
                found = search.nearest(space.vectors[pivots[rows]], int(ranks[rows[-1]]) + 1)
                released[rows] = found[np.arange(len(rows)), ranks[rows]]
            return released

        return release
