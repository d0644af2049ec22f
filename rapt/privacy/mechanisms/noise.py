"""Noise with density proportional to exp(−η‖z‖), then the nearest word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import Draws, Mechanism, Rows, Sampler, Space


def spherical_noise(rng: np.random.Generator, n: int, dimension: int) -> NDArray[np.float64]:
    """Draw n noise vectors at η = 1, float64 (n, d), for the Euclidean metric; divide them by η.

    z = l·v with l ~ Gamma(d, scale 1), v uniform on the unit *sphere* (Feyisetan et al., 2020): a
    draw from the ball, as some papers write, would not have the density exp(−‖z‖).
    """
    direction = rng.standard_normal((n, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.standard_gamma(dimension, size=(n, 1))
    return radius * direction


class NearestAfterNoise:
    """The word nearest to the noisy vector, which alone it sees."""

    def __init__(self, space: Space, eta: float) -> None:
        """Prepare the search."""
        self._search, self._eta = space.search(), eta

    def __call__(self, vectors: NDArray[np.floating[Any]], draws: Draws) -> Rows:
        """See Sampler."""
        return self._search(vectors + draws / self._eta)


@dataclass(frozen=True)
class T2T(Mechanism):
    """Text-to-text privatization: every word, nearest neighbour in the whole table."""

    name: ClassVar[str] = "t2t"
    source: ClassVar[str] = "Feyisetan et al., 2020"
    categories: ClassVar[str] = "none"

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Noise at η = 1, (n, d)."""
        return spherical_noise(rng, n, dimension)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The nearest word to the vector plus noise."""
        return NearestAfterNoise(space, eta)


@dataclass(frozen=True)
class PCT2T(T2T):
    """POS-constrained T2T: words of the chosen categories, each within its category."""

    name: ClassVar[str] = "pct2t"
    source: ClassVar[str] = "RAPT, arXiv 2305.06212"
    categories: ClassVar[str] = "required"
