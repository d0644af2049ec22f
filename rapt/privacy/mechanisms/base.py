"""What every mechanism is: parameters, a metric, a law, and how it releases words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rapt.errors import RaptError
from rapt.privacy.neighbours import ExactSearch

Vectors = NDArray[np.float32]
Draws = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Space:
    """The candidate words of one group: where a mechanism may release to.

    Attributes:
        vectors: float32 (V, d).
        frequency: float64 (V,), public relative frequency of each word, 0 where unknown.
        device: where neighbours are searched, as PyTorch names it.
    """

    vectors: Vectors
    frequency: NDArray[np.float64]
    device: str = "cpu"

    def search(self) -> ExactSearch:
        """The exact nearest candidates."""
        return ExactSearch(self.vectors)


class Sampler(Protocol):
    """A mechanism at one η over one space."""

    def __call__(self, vectors: NDArray[np.floating[Any]], draws: Draws) -> Rows:
        """Release words.

        Args:
            vectors: (n, d), of the words to release, be they candidates or not.
            draws: (n, k), what the mechanism drew for them.

        Returns:
            the row of the candidate that each becomes, int64 (n,).
        """


@dataclass(frozen=True)
class Mechanism(ABC):
    """A randomized map from words to words; its fields are its parameters.

    A word's randomness is drawn first, from the stream of its text, and in the same amount for
    whatever word: results then depend on neither batches nor order.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    metric: ClassVar[str] = "Euclidean distance of word embeddings"
    # Why its published claim does not hold; None: it does, and the audit has found nothing else.
    caveat: ClassVar[str | None] = None
    # Whether it is defined with categories ("required"), without ("none") or either way ("any").
    categories: ClassVar[str] = "any"

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw what n words take, float64 (n, k), free of η."""

    @abstractmethod
    def sampler(self, space: Space, eta: float) -> Sampler:
        """The mechanism at η over a space."""

    def distance(self, space: Space, one: Vectors, other: Vectors) -> NDArray[np.float64]:
        """The distances that the law speaks of, between vectors (n, d), float64 (n,)."""
        return np.linalg.norm(one.astype(np.float64) - other, axis=1)

    def bound(self, eta: float, distance: float) -> float:
        """The most that log P[M(w)=y] − log P[M(w')=y] may be, for words at this distance."""
        return eta * distance

    def law(self, eta: str) -> str:
        """The bound as a formula."""
        return f"P[M(w)=y] <= exp({eta} * d(w, w')) * P[M(w')=y] for all words w, w', y"


def in_range(name: str, value: float, low: float, high: float) -> None:
    """Check that a parameter lies strictly between two values.

    Raises:
        RaptError: it does not.
    """
    if not low < value < high:
        raise RaptError(f"{name}: {value} given, allowed: above {low:g} and below {high:g}")
