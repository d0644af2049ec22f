"""Noise on the direction of a text's vector: directional laws, Laplace and Gaussian noise."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isinf, log, pi

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import Distances, Draws, Space, Vectors
from rapt.privacy.mechanisms.claim import (
    ANY_TEXTS,
    EUCLIDEAN,
    REAL,
    TABLE,
    Metric,
    TextClaim,
    euclidean,
)
from rapt.privacy.mechanisms.encoders import FramedText
from rapt.privacy.mechanisms.gaussian import GaussianNoise
from rapt.privacy.mechanisms.vectors import SphericalNoise
from rapt.utils.errors import RaptError

POINTS, PASSES = 1 << 15, 8  # of the grid of angles, and how often it is narrowed
WIDEST = 700.0  # the first grid's ends
DEPTH = 45.0  # nats below the mode, where the grid ends: beyond what 53 bits reach
FLAT = 1e-12  # a slope below which log-density is constant
FRAME = (
    "The encoder, its mean and its coordinates are public and frozen: none of them was fitted on "
    "private texts."
)
ANGLES = (
    "The angle is drawn from a table of its law. Between the table's points the density is off by "
    "less than a factor of exp(1e-4)."
)
ONCE = "Each text is released once, before any training: noise that is drawn anew adds up."
CHORD = replace(
    EUCLIDEAN,
    name="Euclidean distance of the directions of two encoded texts",
    largest=lambda _: 2.0,
)


def _angle(_: object, __: Space, one: Vectors, other: Vectors) -> Distances:
    return np.asarray(2 * np.arcsin(np.minimum(1, euclidean(one, other) / 2)))


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shorten or lengthen vectors to 1; one of length 0 becomes the first axis."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = vectors / np.where(length > 0, length, 1)
    scaled[length[:, 0] == 0, :1] = 1
    return scaled


class AngleLaw:
    """The law of the angle to a direction in d dimensions, drawn by its inverse.

    Its density over θ in [0, π] is proportional to exp(g(θ))·sin(θ)^(d − 2). Everything is in
    logarithms, as at d = 768 the density itself underflows. The grid is over s = log tan(θ/2), in
    which both poles are at infinity and sin θ is 1 / cosh s. Between its points log-density is
    linear.

    Attributes:
        log_mass: the logarithm of its integral over θ.
    """

    def __init__(self, kind: type[Directional], kappa: float, dimension: int) -> None:
        """Lay the grid wherever the density is within DEPTH of its mode."""
        self._density = lambda at: (
            kind.exponent(kappa, _theta(at))
            - (dimension - 1) * (np.abs(at) + np.log1p(np.exp(-2 * np.abs(at))) - log(2))
        )
        low, high = -WIDEST, WIDEST
        with np.errstate(over="ignore"):
            for _ in range(PASSES):
                at = np.linspace(low, high, POINTS)
                density = self._density(at)
                inside = np.flatnonzero(density > density.max() - DEPTH)
                low, high = at[max(0, inside[0] - 1)], at[min(POINTS - 1, inside[-1] + 1)]
        top = density.max()
        density = np.maximum(density - top, -2 * DEPTH)
        self._at, self._step, self._slope = at, at[1] - at[0], np.diff(density)
        masses = np.exp(density[:-1]) * _mean_of_exponential(self._slope)
        self._upto = np.concatenate([[0.0], np.cumsum(masses)])
        self.log_mass = float(top + log(self._upto[-1] * self._step))

    def __call__(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the angle of each uniform number in [0, 1)."""
        mass = uniform * self._upto[-1]
        cell = np.searchsorted(self._upto, mass, side="right") - 1
        cell = np.minimum(cell, len(self._slope) - 1)
        slope = self._slope[cell]
        share = (mass - self._upto[cell]) / (self._upto[cell + 1] - self._upto[cell])
        flat = np.abs(slope) < FLAT
        inside = np.where(flat, share, np.log1p(share * np.expm1(slope)) / np.where(flat, 1, slope))
        return _theta(self._at[cell] + inside * self._step)


def _theta(at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The angle at a point of the grid."""
    return 2 * np.arctan(np.exp(at))


def _mean_of_exponential(slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """∫ exp(slope·x) over x in [0, 1]."""
    flat = np.abs(slope) < FLAT
    return np.where(flat, 1.0, np.expm1(slope) / np.where(flat, 1.0, slope))


@lru_cache(64)
def angle_law(kind: type[Directional], kappa: float, dimension: int) -> AngleLaw:
    """Return the law of a mechanism's angle, tabulated once."""
    return AngleLaw(kind, kappa, dimension)


@dataclass(frozen=True)
class OnSphere(FramedText):
    """The direction of an encoded text."""

    def normalized(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """To length 1."""
        return unit(vectors)


class Directional(OnSphere):
    """A random direction around the text's own, whose law depends on the angle between them."""

    @staticmethod
    @abstractmethod
    def exponent(kappa: float, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithm of the density on the sphere at an angle, up to a constant."""

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """A uniform number for the angle, and normal ones for the rest, (n, 1 + d)."""
        return np.hstack([rng.random((n, 1)), rng.standard_normal((n, dimension))])

    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """A direction for each row of draws, of length 1; at η = inf the text's own.

        Raises:
            RaptError: the vectors have one dimension, in which there are no directions.
        """
        own = np.broadcast_to(np.asarray(vectors, np.float64), (len(draws), vectors.shape[1]))
        if isinf(eta):
            return own.copy()
        if own.shape[1] < 2:
            raise RaptError(
                f"mechanism {self.name}: got vectors of 1 dimension, expected 2 or more."
            )
        theta = angle_law(type(self), eta, own.shape[1])(draws[:, :1])
        aside = draws[:, 1:] - (draws[:, 1:] * own).sum(axis=1, keepdims=True) * own
        return np.cos(theta) * own + np.sin(theta) * unit(aside)

    def at_distance(self, distances: Distances, eta: float) -> Distances:
        """That of the angle."""
        return self.exponent(eta, 2 * np.arcsin(np.minimum(1, distances / 2)))

    def log_density(self, vectors: Vectors, released: Vectors, eta: float) -> Distances:
        """That of the angle between them, float64 (n,)."""
        return self.at_distance(euclidean(vectors, released), eta)


@dataclass(frozen=True)
class VonMisesFisher(Directional):
    """A direction y of density proportional to exp(κ·⟨x, y⟩) around the text's direction x."""

    name = "vmf"
    source = "Weggenmann and Kerschbaum, 2021, arXiv 2109.10582"
    claim = TextClaim(CHORD, ("directions",), conditions=(TABLE, FRAME, REAL, ANGLES, ONCE))

    @staticmethod
    def exponent(kappa: float, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """κ·(cos θ − 1), without the difference of two numbers near 1."""
        return np.asarray(-2 * kappa * np.sin(theta / 2) ** 2)


@dataclass(frozen=True)
class Purkayastha(Directional):
    """A direction y of density proportional to exp(−κ·θ), θ its angle to the text's direction."""

    name = "purkayastha"
    source = "Weggenmann and Kerschbaum, 2021, arXiv 2109.10582; Sentence-LDP's PurMech"
    claim = TextClaim(
        Metric("angle between the directions of two encoded texts", _angle, lambda _: pi),
        ("directions",),
        conditions=(TABLE, FRAME, REAL, ANGLES, ONCE),
    )

    @staticmethod
    def exponent(kappa: float, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """−κ·θ."""
        return -kappa * theta


@dataclass(frozen=True)
class SphereNoise(SphericalNoise, OnSphere):
    """The text's direction plus spherical Laplace noise, which leaves the sphere."""

    name = "sphere-noise"
    source = "Du et al., 2023, Sanitizing sentence embeddings (LapMech)"
    claim = TextClaim(CHORD, ("noise", "sphere"), conditions=(TABLE, FRAME, REAL, ONCE))


@dataclass(frozen=True)
class Gaussian(GaussianNoise, OnSphere):
    """The text's direction plus Gaussian noise: (ε, δ) between any two texts, analytically."""

    name = "gaussian"
    source = "Balle and Wang, 2018, arXiv 1805.06530"
    claim = TextClaim(
        ANY_TEXTS,
        ("gaussian",),
        conditions=(TABLE, FRAME, REAL, ONCE),
        delta=1e-5,
        approximate=True,
    )

    @property
    def sensitivity(self) -> float:
        """Of two directions."""
        return 2.0
