"""What every mechanism is: parameters, a metric, a law, and how it releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.neighbours import ExactSearch, Precision
from rapt.utils.errors import RaptError

Vectors = NDArray[np.floating[Any]]
Draws = NDArray[np.float64]
Rows = NDArray[np.int64]
Distances = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Space:
    """The candidate words of one group: where a mechanism may release to.

    Attributes:
        vectors: float32 (V, d).
        frequency: float64 (V,), public relative frequency of each word, 0 where unknown.
        device: where neighbours are searched, as PyTorch names it.
        precision: of the search's first pass; the neighbours are the same.
    """

    vectors: NDArray[np.float32]
    frequency: NDArray[np.float64]
    device: str = "cpu"
    precision: Precision = "float32"

    def search(self) -> ExactSearch:
        """The exact nearest candidates."""
        return ExactSearch(self.vectors, device=self.device, precision=self.precision)

    def rows(self, vectors: Vectors) -> Rows:
        """The candidate nearest to each vector: a candidate's own vector gives its row."""
        return self.search()(vectors)


class Sampler(Protocol):
    """A word mechanism at one η over one space."""

    def __call__(self, vectors: Vectors, draws: Draws) -> Rows:
        """Release words.

        Args:
            vectors: (n, d), of the words to release, be they candidates or not.
            draws: (n, k), what the mechanism drew for them.

        Returns:
            the row of the candidate that each becomes, int64 (n,).
        """


@dataclass(frozen=True)
class Mechanism(ABC):
    """A randomized map; its fields are its parameters.

    Randomness is drawn first, from the stream of a text, and in the same amount whatever the words:
    results then depend on neither batches nor order.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    metric: ClassVar[str] = "Euclidean distance of word embeddings"
    # What its release holds: words or vectors.
    releases: ClassVar[str]
    # What its published claim misses; None: it holds.
    caveat: ClassVar[str | None] = None
    # Whether any law is known to hold.
    proven: ClassVar[bool] = True
    # Whether it is defined with categories ("required"), without ("none") or either way ("any").
    categories: ClassVar[str] = "any"

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw what a text of n words takes, float64, free of η and of the words."""

    def distance(self, space: Space, one: Vectors, other: Vectors) -> Distances:
        """The distances that the law speaks of, between vectors (n, d): float64 (n,)."""
        return euclidean(one, other)

    def claimed_distance(self, space: Space, one: Vectors, other: Vectors) -> Distances:
        """The distances that the paper's claim speaks of; `distance` unless there is a caveat."""
        return self.distance(space, one, other)

    def bound(self, eta: float, distance: float) -> float:
        """The most that log P[M(w)=y] − log P[M(w')=y] may be, for words at this distance."""
        return eta * distance

    def law(self, eta: str) -> str:
        """The bound as a formula."""
        return f"P[M(w)=y] <= exp({eta} * d(w, w')) * P[M(w')=y] for all words w, w', y"


class WordMechanism(Mechanism):
    """A mechanism that releases a word for each word; it draws a row for each, (n, k)."""

    releases: ClassVar[str] = "words"

    @abstractmethod
    def sampler(self, space: Space, eta: float) -> Sampler:
        """The mechanism at η over a space."""


class VectorMechanism(Mechanism):
    """A mechanism that releases vectors: every word, in the whole space."""

    releases: ClassVar[str] = "vectors"
    categories: ClassVar[str] = "none"

    # Whether a text is released as one vector: its law then speaks of the mean of its words.
    pooled: ClassVar[bool] = False

    @abstractmethod
    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """Release a text.

        Args:
            vectors: (n, d), of its words.
            draws: what the mechanism drew for it.
            eta: the privacy parameter.

        Returns:
            float64 (m, d): a vector for each word, or one for the text.
        """


def parameter(default: Any, help: str) -> Any:
    """A field of a mechanism, with the paper's value."""
    return field(default=default, metadata={"help": help})


def euclidean(one: Vectors, other: Vectors) -> Distances:
    """‖one − other‖ row by row, float64 (n,)."""
    return np.linalg.norm(np.asarray(one, np.float64) - other, axis=1)


def check(name: str, value: float, expected: str, holds: bool) -> None:
    """Check a parameter.

    Raises:
        RaptError: it does not hold.
    """
    if not holds:
        raise RaptError(f"{name}: got {value}, expected {expected}.")
