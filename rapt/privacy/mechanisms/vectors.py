"""Mechanisms that release the noisy vectors themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import (
    Distances,
    Draws,
    Law,
    Space,
    VectorMechanism,
    Vectors,
    WordVectorMechanism,
    check,
    parameter,
)
from rapt.privacy.mechanisms.claim import (
    ANY_TEXTS,
    EUCLIDEAN,
    GRID,
    REAL,
    ROOT,
    TABLE,
    Claim,
    Metric,
    TextClaim,
)
from rapt.privacy.mechanisms.encoders import EncodedText
from rapt.privacy.mechanisms.noise import spherical_noise

LEAST = -700.0  # nats: float64 reaches no further


def rounded(vectors: NDArray[np.float64], grid: float) -> NDArray[np.float64]:
    """To multiples of the grid, none of them −0."""
    return np.round(vectors / grid) * grid + 0.0


class SphericalNoise(VectorMechanism):
    """Noise of density exp(−η‖z‖) on vectors."""

    noise: ClassVar[Law | None] = "spherical"

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Noise at η = 1, (n, d)."""
        return spherical_noise(rng, n, dimension)


@dataclass(frozen=True)
class OnGrid(SphericalNoise):
    """Spherical noise on vectors, whose numbers are then rounded to a grid."""

    grid: float = parameter(2.0**-10, "the spacing that released numbers are rounded to")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("grid", self.grid, "a number above 0", self.grid > 0)

    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """Add the noise and round, (n, d); at η = inf the vectors' own numbers are rounded."""
        return rounded(super().represent(vectors, draws, eta), self.grid)


class LaplaceNoise(VectorMechanism):
    """Laplace noise on each coordinate of vectors."""

    noise: ClassVar[Law | None] = "laplace"

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Laplace noise of scale 1, (n, d)."""
        return rng.laplace(size=(n, dimension))


@dataclass(frozen=True)
class TokenRepresentation(OnGrid, WordVectorMechanism):
    """The noisy vector of each word, rounded to a grid (Qu et al., token representation)."""

    name = "token-representation"
    source = "Qu et al., 2021, arXiv 2104.07504"
    claim = Claim(EUCLIDEAN, ("noise", "sphere", "grid"), conditions=(TABLE, GRID))


def _l1(_: SplitNDenoise, __: Space, one: Vectors, other: Vectors) -> Distances:
    return np.asarray(np.abs(np.asarray(one, np.float64) - other).sum(axis=1))


@dataclass(frozen=True)
class SplitNDenoise(OnGrid, WordVectorMechanism):
    """Split-and-Denoise's noise as its authors' code draws it: each coordinate has its own size.

    With one size for the whole vector it is `token-representation`, which is the mended variant.
    What its user denoises on their own machine is `+ local`, which also reads the raw text there.
    """

    name = "snd-as-coded"
    source = "Mai et al., 2024, Split-and-Denoise, arXiv 2310.09130, the authors' code"
    noise = None
    claim = Claim(
        Metric("sum of the absolute differences of two word embeddings", _l1),
        ("noise-by-coordinate", "grid"),
        conditions=(TABLE, GRID),
        published=EUCLIDEAN,
        caveat="Its paper draws one size for the whole vector, its code one for each coordinate. "
        "The loss adds up over coordinates: it is up to eta * sqrt(dimension) times the Euclidean "
        "distance. The noise is sqrt(dimension / 3) times as large.",
    )

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Noise at η = 1, (n, d): for each number a Gamma(d) size times one from -1 to 1."""
        return rng.gamma(dimension, size=(n, dimension)) * rng.uniform(-1, 1, (n, dimension))

    def log_density(self, vectors: Vectors, released: Vectors, eta: float) -> Distances:
        """The sum over coordinates of log P[Gamma(d - 1) > η·|z|], float64 (n,)."""
        from scipy.stats import gamma  # here, as every command reads params

        # Not frozen, which takes longer than the computation.
        logs = gamma.logsf(eta * np.abs(released - vectors), vectors.shape[1] - 1)
        return np.asarray(np.maximum(logs, LEAST).sum(axis=1))


@dataclass(frozen=True)
class SequenceRepresentation(OnGrid, EncodedText):
    """The noisy mean of a text's vectors, rounded to a grid (Qu et al., sequence representation).

    Qu et al. perturb what a local encoder pools. By default that is the mean of the words' vectors.
    """

    name = "sequence-representation"
    source = "Qu et al., 2021, arXiv 2104.07504"
    claim = TextClaim(
        replace(EUCLIDEAN, name="Euclidean distance of the encoded vectors of two texts"),
        ("noise", "sphere", "grid"),
        conditions=(TABLE, GRID),
    )


@dataclass(frozen=True)
class Adept(LaplaceNoise, EncodedText):
    """ADePT's noise step on the mean of a text's vectors: clipped, plus Laplace noise."""

    name = "adept"
    source = "Krishna et al., 2021; Habernal, 2021, arXiv 2109.03175"
    claim = TextClaim(
        ROOT,
        ("noise", "clipped-laplace"),
        conditions=(TABLE, REAL),
        published=ANY_TEXTS,
        caveat="Its noise is scaled to the Euclidean length of what it hides. Laplace noise needs "
        "the sum of absolute coordinates: of d dimensions, it spends eta * sqrt(d), not eta.",
    )
    clip: float = parameter(1.0, "C, the length to which longer vectors are shortened")

    def __post_init__(self) -> None:
        check("clip", self.clip, "a number above 0", self.clip > 0)

    @property
    def scale(self) -> float:
        """The largest distance of what is clipped."""
        return 2 * self.clip

    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """One vector for the text, (1, d)."""
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        shortened = np.minimum(1, self.clip / np.maximum(length, np.finfo(float).tiny))
        return super().represent(vectors * shortened, draws, eta)
