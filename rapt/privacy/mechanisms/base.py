"""Base classes of the mechanisms: parameters, metric, privacy guarantee and release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.neighbours import ExactSearch
from rapt.utils.errors import RaptError

Vectors = NDArray[np.floating[Any]]
Draws = NDArray[np.float64]
Rows = NDArray[np.int64]
Distances = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Space:
    """The candidate words of one group: the outputs that a mechanism may release.

    Attributes:
        vectors: float32 (V, d).
        frequency: float64 (V,), public relative frequency of each word, 0 if unknown.
    """

    vectors: NDArray[np.float32]
    frequency: NDArray[np.float64]

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
    metric: ClassVar[str] = "Euclidean distance of word embeddings"
    # What it releases; the word nearest to a released vector stands beside it (post-processing).
    releases: ClassVar[Literal["words", "vectors"]]
    # Whether a text is released as one vector: the guarantee is then about its words' mean.
    pooled: ClassVar[bool] = False
    # Its guarantee as a formula, with {eta}.
    formula: ClassVar[str] = (
        "P[M(w)=y] <= exp({eta} * d(w, w')) * P[M(w')=y] for all words w, w', y"
    )
    # Why its published claim fails; None: it holds.
    caveat: ClassVar[str | None] = None
    # Whether any privacy guarantee is proven.
    proven: ClassVar[bool] = True
    # Whether it is defined with categories ("required"), without ("none") or either way ("any").
    categories: ClassVar[str] = "any"

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw the randomness for a text of n words, float64, independent of η and the words."""

    def distance(self, space: Space, one: Vectors, other: Vectors) -> Distances:
        """Compute the distances in the guarantee's metric between vectors (n, d): float64 (n,)."""
        return euclidean(one, other)

    def claimed_distance(self, space: Space, one: Vectors, other: Vectors) -> Distances:
        """Compute the distances in the published claim; `distance` unless there is a caveat."""
        return self.distance(space, one, other)

    def bound(self, eta: float, distance: float) -> float:
        """Bound log P[M(w)=y] − log P[M(w')=y] for words at this distance."""
        return eta * distance

    def law(self, eta: str) -> str:
        """Return the bound as a formula."""
        return self.formula.format(eta=eta)


class WordMechanism(Mechanism):
    """A mechanism that releases a word for each word; its draws have a row for each, (n, k)."""

    releases: ClassVar[Literal["words", "vectors"]] = "words"
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

    releases: ClassVar[Literal["words", "vectors"]] = "vectors"
    categories: ClassVar[str] = "none"

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


def euclidean(one: Vectors, other: Vectors) -> Distances:
    """Compute ‖one − other‖ row by row, float64 (n,)."""
    return np.linalg.norm(np.asarray(one, np.float64) - other, axis=1)


def check(name: str, value: float, expected: str, holds: bool) -> None:
    """Check a parameter.

    Raises:
        RaptError: `holds` is False.
    """
    if not holds:
        raise RaptError(f"{name}: got {value}, expected {expected}.")
