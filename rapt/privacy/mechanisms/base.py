"""Base classes of the mechanisms: parameters, claim and release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.claim import Claim
from rapt.privacy.neighbours import ExactSearch
from rapt.privacy.released import NewText, Released, TextVector, Words, WordVectors
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.privacy.base import AnyPrivatizer
    from rapt.text.table import EmbeddingTable

Vectors = NDArray[np.floating[Any]]
Draws = NDArray[np.float64]
Rows = NDArray[np.int64]
Distances = NDArray[np.float64]
Texts = Sequence[Sequence[str]]
# Of noise: see VectorMechanism.
Law = Literal["spherical", "laplace", "gaussian"]
# Writes a text of new words for the words of one, with the random numbers that it needs.
Rewriter = Callable[[Sequence[str], np.random.Generator], list[str]]


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

    Randomness is drawn from the stream of a text. Results then depend on neither batches nor order.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    # What it promises. A class that states no claim of its own has none: it inherits nothing.
    claim: ClassVar[Claim] = Claim()
    # What it releases of a text.
    releases: ClassVar[type[Released]]
    # Whether it is defined with categories ("required"), without ("none") or either way ("any").
    categories: ClassVar[str] = "any"

    def __post_init__(self) -> None:  # noqa: B027 - most have nothing to check
        """Check the parameters.

        Raises:
            RaptError: one of them is not allowed.
        """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.claim = vars(cls).get("claim", Claim())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parameters alone: the loss of a completed claim is a function of this one."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def _complete_claim(self, **parts: Any) -> None:
        """Fill in what the claim owes to parameters. A class without a claim gets none by that."""
        if type(self).claim.proof:
            object.__setattr__(self, "claim", replace(type(self).claim, **parts))

    def privatizer(
        self, *, table: EmbeddingTable, eta: float, categories: Sequence[str] | None = None
    ) -> AnyPrivatizer[Any]:
        """Return the mechanism at one η over a public table, within categories.

        Raises:
            RaptError: η is not above 0, or the categories do not fit mechanism or table.
        """
        from rapt.privacy.whole_texts import PRIVATIZERS  # which imports this module

        kind = next(PRIVATIZERS[unit] for unit in self.releases.mro() if unit in PRIVATIZERS)
        return kind(table=table, mechanism=self, eta=eta, categories=categories)

    @property
    def metric(self) -> str:
        """The name of its claim's metric."""
        return self.claim.metric.name.format(**vars(self))

    def distance(self, space: Space, one: Vectors, other: Vectors) -> Distances:
        """Compute the distances in its claim's metric between vectors (n, d): float64 (n,)."""
        return self.claim.metric.between(self, space, one, other)

    def units(self, words: Sequence[str], table: EmbeddingTable) -> Vectors | None:
        """Return the vectors of a text's parts, (n, d), if its claim adds up their distances.

        None: it compares texts as a whole.
        """
        return None


class WordMechanism(Mechanism):
    """A mechanism that releases a word for each word; its draws have a row for each, (n, k)."""

    releases = Words
    # How many uniform numbers it draws for each word.
    uniforms: ClassVar[int] = 1

    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw uniform numbers, (n, uniforms), independent of η and the words."""
        return rng.random((n, self.uniforms))

    @abstractmethod
    def sampler(self, space: Space, eta: float) -> Sampler:
        """Return the mechanism's sampler at η over a space."""


class VectorMechanism(Mechanism):
    """A mechanism that releases vectors, for every word, in the whole space."""

    categories = "none"
    # The law of its noise of size 1, which `rapt audit` tests: of density exp(−‖z‖), exp(−Σ|z|) or
    # exp(−‖z‖²/2). None: another one.
    noise: ClassVar[Law | None] = None

    @property
    def scale(self) -> float:
        """The size of the noise at η = 1."""
        return 1.0

    def size(self, eta: float) -> float:
        """The size of the noise at η."""
        return self.scale / eta

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int, dimension: int) -> Draws:
        """Draw the randomness for n vectors, float64, independent of η and the words."""

    def represent(self, vectors: Vectors, draws: Draws, eta: float) -> NDArray[np.float64]:
        """Release vectors (m, d) with given draws, float64 (m, d): by default they are added."""
        return np.asarray(vectors + draws * self.scale / eta)

    def release(self, vectors: Vectors, rng: np.random.Generator, eta: float) -> Draws:
        """Release the vectors of a text, float64 (m, d)."""
        return self.represent(vectors, self.draw(rng, *vectors.shape), eta)

    @property
    def is_radial(self) -> bool:
        """Whether its density depends on the Euclidean distance from what it is without noise."""
        own = type(self).at_distance is not VectorMechanism.at_distance
        return own or self.noise in ("spherical", "gaussian")

    @property
    def has_density(self) -> bool:
        """Whether `log_density` is known."""
        own = type(self).log_density is not VectorMechanism.log_density
        return own or self.is_radial or self.noise == "laplace"

    def at_distance(self, distances: Distances, eta: float) -> Distances:
        """Return the log density at distances from what is released without noise, likewise."""
        sizes = distances / self.size(eta)
        return -(sizes**2) / 2 if self.noise == "gaussian" else -sizes

    def log_density(self, vectors: Vectors, released: Vectors, eta: float) -> Distances:
        """Compute the log density of released vectors given originals, both (n, d): float64 (n,).

        It is up to a constant, and without what rounding adds. A mechanism whose noise follows
        another law than `noise` states its own, or `at_distance` alone.
        """
        gap = released - self.represent(vectors, np.zeros(vectors.shape), eta)
        if self.noise == "laplace":
            return -np.abs(gap).sum(axis=1) / self.size(eta)
        return self.at_distance(np.linalg.norm(gap, axis=1), eta)


class WordVectorMechanism(VectorMechanism):
    """A mechanism that releases a vector for each word."""

    releases = WordVectors


class TextVectorMechanism(VectorMechanism):
    """A mechanism that releases one vector for a text."""

    releases = TextVector

    def encode(self, texts: Texts, table: EmbeddingTable) -> Vectors:
        """Return the vector of each text before the noise, (n, k): the mean of its words'.

        An encoder of one's own goes here: public, frozen, on the user's side. The vector of a text
        must not depend on the others.
        """
        return means(texts, table)

    @property
    def is_from_table(self) -> bool:
        """Whether the encoder is made of the table alone."""
        return type(self).encode is TextVectorMechanism.encode

    def candidates(self, table: EmbeddingTable) -> Space | None:
        """Return the vectors that a text's is a mean of, or its units are among; None: unknown."""
        return Space(table.vectors, table.frequency) if self.is_from_table else None

    def kept(self, words: Sequence[str], rng: np.random.Generator, eta: float) -> Sequence[str]:
        """Return the words of a text that are encoded: by default all of them, without a draw."""
        return words

    def release_texts(
        self,
        texts: Texts,
        streams: Sequence[np.random.Generator],
        table: EmbeddingTable,
        eta: float,
    ) -> list[NDArray[np.float64]]:
        """Release the vector of each text, float64 (1, k), by the text's own stream."""
        pairs = list(zip(texts, streams, strict=True))
        vectors = self.encode([self.kept(words, rng, eta) for words, rng in pairs], table)
        return [
            self.release(vector[None], rng, eta)
            for vector, rng in zip(vectors, streams, strict=True)
        ]


class RewritingMechanism(Mechanism):
    """A mechanism that writes another text, of any length."""

    releases = NewText
    categories = "none"

    def encode(self, texts: Texts, table: EmbeddingTable) -> Vectors:
        """Return the vectors by which the claim compares texts, (n, k): the means of their words'.

        They differ in shape where nothing is promised.
        """
        return means(texts, table)

    def candidates(self, table: EmbeddingTable) -> Space | None:
        """Return the vectors that a text's is a mean of, or its units are among; None: unknown."""
        is_mean = type(self).encode is RewritingMechanism.encode
        return Space(table.vectors, table.frequency) if is_mean else None

    @abstractmethod
    def writer(self, table: EmbeddingTable, eta: float) -> Rewriter:
        """Return what writes a new text for the words of one, at η.

        It may draw as much as it needs, from the stream of each text alone.
        """


def means(texts: Texts, table: EmbeddingTable) -> NDArray[np.float64]:
    """The mean vector of each text's words, float64 (n, d); 0 of none."""
    found = np.zeros((len(texts), table.dimension))
    for row, words in zip(found, texts, strict=True):
        if words:
            row[:] = np.asarray(table.embed(words), np.float64).mean(axis=0)
    return found


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
