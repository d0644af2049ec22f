"""Gaussian noise with the exact δ of its ε (Balle and Wang, 2018)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from math import inf, pi, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import Draws, Law, VectorMechanism, Vectors, check, parameter
from rapt.utils.errors import RaptError

LARGEST = 1e20  # η


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of Gaussian noise of μ = Δ/σ (Balle and Wang, 2018).

    It is Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ). The second term is a scaled erfc: e^ε would overflow.
    """
    from scipy.special import erfcx, ndtr  # here, as every command reads params

    near, far = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    return float(ndtr(near) - np.exp(-(near**2) / 2) * erfcx(far / sqrt(2)) / 2)


@lru_cache(64)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ = Δ/σ that is (ε, δ)-private.

    Where it is below 1e-12 rounding hides it: then the largest of ε = 0, μ/√(2π) = δ.
    """
    from scipy.optimize import brentq

    least = max(1e-12, sqrt(2 * epsilon) - 60)
    if gaussian_delta(least, epsilon) > delta:
        return delta * sqrt(2 * pi)
    return float(
        brentq(
            lambda mu: gaussian_delta(mu, epsilon) - delta,
            least,
            sqrt(2 * epsilon) + 20,
            xtol=1e-300,
            rtol=1e-14,
            maxiter=500,
        )
    )


@dataclass(frozen=True)
class GaussianNoise(VectorMechanism):
    """Gaussian noise on vectors that are at most `sensitivity` apart; its claim is of (ε, δ)."""

    noise: ClassVar[Law | None] = "gaussian"
    delta: float = parameter(1e-5, "δ, the probability up to which ε holds")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("delta", self.delta, "a number above 0 and below 1", 0 < self.delta < 1)
        self._complete_claim(delta=self.delta)

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The largest Euclidean distance of two vectors that the noise is made for."""

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Noise of deviation 1, (n, d)."""
        return rng.standard_normal((n, dimension))

    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """The vectors with noise, (n, d)."""
        return np.asarray(vectors + draws * self.size(eta))

    def size(self, eta: float) -> float:
        """σ at η; 0 at inf.

        Raises:
            RaptError: η is so large that float64 cannot tell σ from that of another δ.
        """
        if eta == inf:
            return 0.0
        if eta > LARGEST:
            raise RaptError(f"eta: got {eta:g}, expected at most {LARGEST:g} with {self.name}.")
        return self.sensitivity / gaussian_mu(eta, self.delta)
