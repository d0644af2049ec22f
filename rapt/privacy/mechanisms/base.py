"""Base classes of the mechanisms: parameters, claim and release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.claim import Claim
from rapt.privacy.neighbours import ExactSearch
from rapt.utils.errors import RaptError

Vectors = NDArray[np.floating[Any]]
Draws = NDArray[np.float64]
Rows = NDArray[np.int64]
Distances = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Space:
    """The candidate words of one group: the outputs that a mechanism may release.

    Spaces of the same arrays are equal, so that what is made of one is made once for every η.

    Attributes:
        vectors: float32 (V, d).
        frequency: float64 (V,), public relative frequency of each word, 0 if unknown.
    """

    vectors: NDArray[np.float32]
    frequency: NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self._arrays() == other._arrays()

    def __hash__(self) -> int:
        return hash(self._arrays())

    def _arrays(self) -> tuple[int, int]:
        return id(self.vectors), id(self.frequency)

    def search(self) -> ExactSearch:
        """Return the exact search of nearest candidates."""
        return ExactSearch(self.vectors)

    def rows(self, vectors: Vectors) -> Rows:
        """Return the row of the candidate nearest to each vector."""
        return self.search()(vectors)


class Sampler(Protocol):
    """A word mechanism at one η over one space."""

    def __call__(self, vectors: Vectors, draws: Draws) -> Rows:
        """Release words.

        Args:
            vectors: (n, d), of the words to release, which need not be candidates.
            draws: (n, k), the mechanism's random draws for them.

        Returns:
            the row of the candidate that replaces each word, int64 (n,).
        """


@dataclass(frozen=True)
class Mechanism(ABC):
    """A randomized map; its fields are its parameters.

    Randomness is drawn first, from the stream of a text, in an amount that does not depend on the
    words. Results then depend on neither batches nor order.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    # What it promises. A class that states no claim of its own has none: it inherits nothing.
    claim: ClassVar[Claim] = Claim()
    # Whether it releases vectors; the word nearest to each stands beside it (post-processing).
    releases_vectors: ClassVar[bool]
    # Whether a text is released as one vector.
    pooled: ClassVar[bool] = False
    # Whether it is defined with categories ("required"), without ("none") or either way ("any").
    categories: ClassVar[str] = "any"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.claim = vars(cls).get("claim", Claim())

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw the randomness for a text of n words, float64, independent of η and the words."""

    @property
    def metric(self) -> str:
        """The name of its claim's metric."""
        return self.claim.metric.name.format(**vars(self))

    def distance(self, space: Space, one: Vectors, other: Vectors) -> Distances:
        """Compute the distances in its claim's metric between vectors (n, d): float64 (n,)."""
        return self.claim.metric.between(self, space, one, other)


class WordMechanism(Mechanism):
    """A mechanism that releases a word for each word; its draws have a row for each, (n, k)."""

    releases_vectors = False
    # How many uniform numbers it draws for each word.
    uniforms: ClassVar[int] = 1

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw uniform numbers, (n, uniforms)."""
        return rng.random((n, self.uniforms))

    @abstractmethod
    def sampler(self, space: Space, eta: float) -> Sampler:
        """Return the mechanism's sampler at η over a space."""


class VectorMechanism(Mechanism):
    """A mechanism that releases vectors, for every word, in the whole space."""

    releases_vectors = True
    categories = "none"

    def release(
        self, vectors: Vectors, rng: np.random.Generator, eta: float
    ) -> NDArray[np.float64]:
        """Release a text of vectors (n, d): float64, (n, d), or (1, d) if it is pooled."""
        return self.represent(vectors, self.draw(rng, *vectors.shape), eta)

    @abstractmethod
    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """Release a text of vectors (n, d) with given draws; see `release`."""


def parameter(default: Any, help: str) -> Any:
    """Declare a parameter of a mechanism, with the paper's value as default."""
    return field(default=default, metadata={"help": help})


def check(name: str, value: float, expected: str, holds: bool) -> None:
    """Check a parameter.

    Raises:
        RaptError: `holds` is False.
    """
    if not holds:
        raise RaptError(f"{name}: got {value}, expected {expected}.")
