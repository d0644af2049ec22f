"""The text vectors that published systems release: as their authors coded or wrote them, or mended.

A class without a suffix is the mended variant. Its guarantee is the ε that its authors promise. The
others exist to be compared with: their claims say what holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import Distances, Draws, Space, Vectors, check, parameter
from rapt.privacy.mechanisms.claim import (
    ANY_TEXTS,
    ONE_WORD,
    REAL,
    ROOT,
    TABLE,
    Metric,
    TextClaim,
    of_texts,
)
from rapt.privacy.mechanisms.encoders import FramedText
from rapt.privacy.mechanisms.sphere import FRAME, ONCE, unit
from rapt.privacy.mechanisms.vectors import LaplaceNoise

CONDITIONS = (TABLE, FRAME, REAL, ONCE)
INTEGER, FRACTION = 5, 5  # bits of a coordinate beside its sign
BITS = 1 + INTEGER + FRACTION


def _dimensions(_: object, space: Space, one: Vectors, other: Vectors) -> Distances:
    """The number of coordinates: each of them may differ by 1."""
    return of_texts(_, space, one, other) * one.shape[1]


EVERY_COORDINATE = Metric("the number of dimensions, between any two texts", _dimensions, float)


class LaplaceText(LaplaceNoise, FramedText):
    """Laplace noise on each coordinate of an encoded text."""


class InL1(LaplaceText):
    """A vector of L1 norm 1: two of them are at most 2 apart, which is the scale of the noise."""

    @property
    def scale(self) -> float:
        """The largest distance of two vectors."""
        return 2.0

    def normalized(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """To a sum of absolute values of 1; 0 stays 0."""
        length = np.abs(vectors).sum(axis=1, keepdims=True)
        return np.asarray(vectors / np.where(length > 0, length, 1))


class InACube(LaplaceText):
    """A vector with coordinates from 0 to 1 and noise of scale 1, as if two were 1 apart in L1."""

    def normalized(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Stretch each vector's coordinates to [0, 1]; 0 where all are equal."""
        low = vectors.min(axis=1, keepdims=True)
        width = vectors.max(axis=1, keepdims=True) - low
        return np.asarray((vectors - low) / np.where(width > 0, width, 1))


@dataclass(frozen=True)
class Cape(InL1):
    """CAPE's noise on a vector of L1 norm 1, with the scale that its ε needs."""

    name = "cape"
    source = "Plant, Gkatzia and Giuffrida, 2021, CAPE, mended"
    claim = TextClaim(ANY_TEXTS, ("noise", "bounded-laplace"), conditions=CONDITIONS)


@dataclass(frozen=True)
class CapeAsWritten(InACube):
    """CAPE as its paper has it: coordinates from 0 to 1, Laplace noise of scale 1/ε on each."""

    name = "cape-as-written"
    source = "Plant, Gkatzia and Giuffrida, 2021, CAPE"
    claim = TextClaim(
        EVERY_COORDINATE,
        ("noise", "bounded-laplace"),
        conditions=CONDITIONS,
        published=ANY_TEXTS,
        caveat="It takes two vectors to be at most 1 apart. Each of d coordinates may differ by 1, "
        "so it spends eta * d, not eta: 3,840 at eta 5 and d 768.",
    )


@dataclass(frozen=True)
class CapeAsCoded(InACube):
    """CAPE as its authors' code runs: the noise is drawn once and is the same for every text."""

    name = "cape-as-coded"
    source = "Plant, Gkatzia and Giuffrida, 2021, the authors' code"
    noise = None
    claim = TextClaim(
        published=ANY_TEXTS,
        caveat="Its noise is a constant, which was drawn when the graph was built. Whoever has one "
        "text and its release subtracts it from all others: nothing is protected.",
    )

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """The constant, (n, d)."""
        return np.tile(np.random.default_rng(0).laplace(size=dimension), (n, 1))

    def log_density(self, vectors: Vectors, released: Vectors, eta: float) -> Distances:
        """How near the release minus the constant is, float64 (n,): there is no noise."""
        constant = self.draw(np.random.default_rng(0), 1, vectors.shape[1])
        return -np.linalg.norm(released - self.represent(vectors, constant, eta), axis=1)


def dropped(words: Sequence[str], rng: np.random.Generator, mu: float) -> list[str]:
    """Leave out each word with probability μ."""
    stays = rng.random(len(words)) >= mu
    return [word for word, is_left in zip(words, stays, strict=True) if is_left]


@dataclass(frozen=True)
class Dpnr(InL1):
    """DPNR: word dropout, then Laplace noise on a vector of L1 norm 1."""

    name = "dpnr"
    source = "Lyu, He and Li, 2020, DPNR, mended"
    claim = TextClaim(
        ANY_TEXTS,
        ("noise", "bounded-laplace", "word-dropout"),
        domain=ONE_WORD,
        conditions=CONDITIONS,
    )
    mu: float = parameter(0.1, "μ, the probability that a word is left out before it is encoded")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("mu", self.mu, "a number of at least 0 and below 1", 0 <= self.mu < 1)
        self._complete_claim(
            # ln((1 − μ)·e^x + μ), which for a large x is x + ln(1 − μ).
            loss=lambda eta, distance: (
                eta * distance + log((1 - self.mu) + self.mu * exp(-min(eta * distance, 700)))
            ),
            formula=f"ln({1 - self.mu:g} * exp({{eta}} * d(w, w')) + {self.mu:g})",
        )

    def kept(self, words: Sequence[str], rng: np.random.Generator, eta: float) -> Sequence[str]:
        """Leave out each word with probability μ; none at η = inf."""
        return dropped(words, rng, self.mu) if isfinite(eta) else words


@dataclass(frozen=True)
class DpnrAsWritten(Dpnr):
    """DPNR as its paper has it: coordinates from 0 to 1, Laplace noise of scale 1/ε on each."""

    name = "dpnr-as-written"
    source = "Lyu, He and Li, 2020, arXiv 2010.01285"
    claim = TextClaim(
        EVERY_COORDINATE,
        ("noise", "bounded-laplace", "word-dropout"),
        domain=ONE_WORD,
        conditions=CONDITIONS,
        published=ANY_TEXTS,
        caveat="It takes two vectors to be at most 1 apart. Each of d coordinates may differ by 1, "
        "so before the dropout it spends eta * d, not eta: 3,840 at eta 5 and d 768.",
    )
    scale = 1.0
    normalized = InACube.normalized


@dataclass(frozen=True)
class DpnrAsCoded(InACube):
    """DPNR as its authors' code runs: one random number for a text, added to all coordinates."""

    name = "dpnr-as-coded"
    source = "Lyu, He and Li, 2020, the authors' code"
    noise = None
    claim = TextClaim(
        published=ANY_TEXTS,
        caveat="The smallest coordinate is 0 before the noise. Whoever subtracts the smallest one "
        "of the release has the vector: nothing is protected.",
    )

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """The same number for each coordinate, (n, d)."""
        return np.tile(rng.laplace(size=(n, 1)), (1, dimension))

    def log_density(self, vectors: Vectors, released: Vectors, eta: float) -> Distances:
        """How near the release minus its smallest number is, float64 (n,): there is no noise."""
        clear = released - released.min(axis=1, keepdims=True)
        return -np.linalg.norm(clear - vectors, axis=1)


@dataclass(frozen=True)
class Federate(InL1):
    """FEDERATE as its code names it: a vector of L1 norm 1, Laplace noise of scale 2/ε."""

    name = "federate"
    source = "Maheshwari, Denis, Keller and Bellet, 2022, arXiv 2205.06135, mended"
    claim = TextClaim(ANY_TEXTS, ("noise", "bounded-laplace"), conditions=CONDITIONS)


@dataclass(frozen=True)
class FederateAsCoded(InL1):
    """FEDERATE as its authors' code runs: a vector of L2 norm 1, Laplace noise of scale 2/ε."""

    name = "federate-as-coded"
    source = "Maheshwari, Denis, Keller and Bellet, 2022, the authors' code"
    claim = TextClaim(
        ROOT,
        ("noise", "clipped-laplace"),
        conditions=CONDITIONS,
        published=ANY_TEXTS,
        caveat="The vector is brought to an L2 norm of 1, and the noise fits one of 1 in the L1 "
        "norm. Of d dimensions it spends eta * sqrt(d), not eta.",
    )

    def normalized(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """To an L2 norm of 1."""
        return unit(vectors)


def as_bits(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Write each coordinate as BITS bits, (n, BITS·d): sign, then a fixed-point number."""
    largest = 2 ** (INTEGER + FRACTION) - 1
    size = np.minimum(np.round(np.abs(vectors) * 2**FRACTION), largest).astype(np.int64)
    places = np.arange(INTEGER + FRACTION)[::-1]
    bits = np.concatenate([(vectors < 0)[..., None], size[..., None] >> places & 1], axis=-1)
    return bits.reshape(len(vectors), -1).astype(np.float64)


def _share(_: object, __: Space, one: Vectors, other: Vectors) -> Distances:
    return np.asarray((np.asarray(one) != other).mean(axis=1))


class Bits(FramedText):
    """The bits of an encoded text, of which each is drawn anew."""

    def normalized(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """To bits."""
        return as_bits(vectors)

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """A uniform number for each bit, (n, bits)."""
        return rng.random((n, dimension))

    @abstractmethod
    def chances(self, bits: int, eta: float) -> NDArray[np.float64]:
        """The probability that a bit is released as 1, (2, bits): of a 0, and of a 1."""

    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """The released bits, (1, bits)."""
        if not isfinite(eta):
            return np.array(vectors, np.float64)
        of_zero, of_one = self.chances(draws.shape[1], eta)
        return (draws < np.where(vectors > 0, of_one, of_zero)).astype(np.float64)

    def log_density(self, vectors: Vectors, released: Vectors, eta: float) -> NDArray[np.float64]:
        """The log probability of the released bits, float64 (n,)."""
        of_zero, of_one = self.chances(vectors.shape[1], eta)
        ones = np.where(vectors > 0, of_one, of_zero)
        chances = np.where(released > 0, ones, 1 - ones)  # of a rare flip this may be 0
        return np.asarray(np.log(np.maximum(chances, np.finfo(float).tiny)).sum(axis=1))


@dataclass(frozen=True)
class Ome(Bits):
    """The bits of an encoded text, each flipped with probability 1 / (1 + e^(ε / number of bits)).

    OME's release with symmetric flips (randomized response), which keep the ε that it promises.
    """

    name = "ome"
    source = "Lyu, Li, He and Xiao, 2020, arXiv 2006.14170, mended"
    claim = TextClaim(
        Metric("share of the bits that differ", _share, lambda _: 1.0),
        ("randomized-response",),
        conditions=CONDITIONS,
    )

    def chances(self, bits: int, eta: float) -> NDArray[np.float64]:
        """That of a flip, and of none, (2, bits)."""
        flipped = 1 / (1 + exp(min(eta / bits, 700)))
        return np.full((2, bits), [[flipped], [1 - flipped]])


@dataclass(frozen=True)
class OmeAsWritten(Bits):
    """OME as written and coded: ones and zeros are drawn apart, and ones by their place's parity.

    P(1→1) is λ/(1 + λ) at even places and 1/(1 + λ³) at odd ones. P(0→1) is 1/(1 + λ·e^(ε/bits)).
    """

    name = "ome-as-written"
    source = "Lyu, Li, He and Xiao, 2020, arXiv 2006.14170, and the authors' code"
    claim = TextClaim(
        Metric("the number of bits, between any two texts", _dimensions, float),
        ("randomized-response",),
        formula="the sum of the worse log-ratio of each of d(w, w') bits at {eta}",
        conditions=CONDITIONS,
        published=ANY_TEXTS,
        caveat="Its proof multiplies the odds of an even and an odd bit, but an attacker takes the "
        "worse answer of each. At eta 10, lambda 100 and 550 bits the loss is 3,797, not 10.",
    )
    weight: float = parameter(100.0, "λ, how much likelier zeros and even ones stay")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("weight", self.weight, "a number above 0", self.weight > 0)
        self._complete_claim(loss=lambda eta, bits: self.loss(int(bits), eta))

    def chances(self, bits: int, eta: float) -> NDArray[np.float64]:
        """The probability that a bit is released as 1, (2, bits): of a 0, and of a 1."""
        growth = self.weight * exp(min(eta / bits, 700))
        of_one = np.where(
            np.arange(bits) % 2, 1 / (1 + self.weight**3), self.weight / (1 + self.weight)
        )
        return np.stack([np.full(bits, 1 / (1 + growth)), of_one])

    def loss(self, bits: int, eta: float) -> float:
        """What holds: the sum over bits of the larger log-ratio of both answers."""
        chances = self.chances(bits, eta)
        ratios = np.abs([np.log(part[0] / part[1]) for part in (chances, 1 - chances)])
        return float(ratios.max(axis=0).sum())
