"""The interface of what privatizes texts: a mechanism at one η over one public table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.categories import Scheme, expanded
from rapt.privacy.mechanisms import Mechanism
from rapt.privacy.mechanisms.base import Vectors
from rapt.privacy.mechanisms.claim import Bound, Claim
from rapt.privacy.released import Released
from rapt.privacy.streams import fresh
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError, wrong_eta

Kind = TypeVar("Kind", bound=Mechanism)


NO_PROMISE = inf, 0.0  # the loss between two texts


@dataclass(frozen=True)
class PreparedText:
    """One text to privatize; `AnyPrivatizer.text` makes it of tagged words.

    Attributes:
        words: in order.
        groups: the group of each; VERBATIM: it is released as it is.
        stream: makes the text's random generator; by default nobody can replay its noise.
        noise_source: index of the earlier word whose noise and released word each word reuses.
            It is an earlier one or itself; NO_NOISE counts as itself. Empty: each is on its own.
        fates: what becomes of each (rapt.privacy.fates). Empty: they are no words of a user.
    """

    words: Sequence[str]
    groups: Sequence[int]
    stream: Callable[[], np.random.Generator] = fresh
    noise_source: Sequence[int] = ()
    fates: Sequence[str] = ()

    @property
    def sources(self) -> NDArray[np.int64]:
        """The index of the word that each word is released as, itself or an earlier one, (n,)."""
        own = np.arange(len(self.words))
        if not self.noise_source:
            return own
        return np.where(np.array(self.noise_source) < 0, own, self.noise_source)


class Stated(NamedTuple):
    """What a statement says of a unit.

    Attributes:
        scope: what is released by the mechanism.
        adds_up_over: what its losses add up over.
        more: further sentences of the guarantee.
        not_covered: what is released unchanged, a sentence each.
    """

    scope: str
    adds_up_over: str
    more: str
    not_covered: list[str]


class AnyPrivatizer(ABC, Generic[Kind]):
    """A mechanism at one η over one public table, of whatever unit it releases.

    Attributes:
        table: the embedding table.
        mechanism: the mechanism.
        eta: above 0; inf: texts are released as they are.
        scheme: which words get noise, and among which words each is replaced.
    """

    def __init__(
        self,
        *,
        table: EmbeddingTable,
        mechanism: Kind,
        eta: float,
        categories: Sequence[str] | None = None,
    ) -> None:
        """Check η and the categories.

        Args:
            table: the embedding table.
            mechanism: one of rapt.privacy.mechanisms.
            eta: the privacy parameter, above 0, relative to the table; smaller is more private.
            categories: names of part-of-speech categories, or of a set of them alone: "paper",
                "content", "all"; None: every word.

        Raises:
            RaptError: eta is not above 0, or the categories do not fit mechanism or table.
        """
        if not eta > 0:
            raise RaptError(f"eta: {wrong_eta(eta)}")
        check_categories(mechanism, categories)
        self.table, self.mechanism, self.eta = table, mechanism, eta
        self.scheme = Scheme(None if categories is None else expanded(categories))

    def at(self, eta: float) -> Self:
        """Return the same at another η."""
        categories = self.scheme.categories
        made = self.mechanism.privatizer(table=self.table, eta=eta, categories=categories)
        return cast(Self, made)

    @property
    def releases(self) -> type[Released]:
        """The unit that it releases."""
        return self.mechanism.releases

    @property
    def dimension(self) -> int:
        """The dimension of what it releases or compares."""
        return self.table.dimension

    @property
    def claim(self) -> Claim:
        """The mechanism's claim, within the scheme."""
        own = self.mechanism.claim
        return own if self.scheme.categories is None else own.within_categories()

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """The bound of one unit."""

    @property
    @abstractmethod
    def max_loss(self) -> float:
        """The most that one unit loses against another, in nats; inf: no bound."""

    @abstractmethod
    def loss_between(self, one: PreparedText, other: PreparedText) -> tuple[float, float]:
        """Return the most that a release can tell two texts apart: (ε in nats, δ).

        ε is inf where nothing is promised, as of texts of which one is longer, word for word.
        """

    @property
    @abstractmethod
    def distances(self) -> dict[str, float]:
        """Typical and largest distances between units of public text, by name."""

    @abstractmethod
    def stated(self) -> Stated:
        """Return what a statement says of the unit."""

    @abstractmethod
    def text(
        self,
        words: Sequence[str],
        pos: Sequence[str],
        identifiers: Iterable[str | None] = (),
        noise_source: Sequence[int] | None = None,
        *,
        stream: Callable[[], np.random.Generator] = fresh,
    ) -> PreparedText:
        """Decide what becomes of each word of a tagged text; see `Privatizer.text`."""

    @abstractmethod
    def release(self, texts: Iterable[PreparedText]) -> Iterator[Any]:
        """Release each text, of which each takes its randomness from its own stream."""

    @abstractmethod
    def unprotected(self, words: Sequence[str]) -> Released:
        """Return a text as it is, in the form of a release."""

    def originals(self, texts: Sequence[PreparedText]) -> list[Vectors]:
        """Return what the noise is added to, of each text a vector for each position (n, d).

        Raises:
            RaptError: it releases no vectors.
        """
        raise RaptError(
            f"mechanism: got {self.mechanism.name}, which releases {self.releases.name}, "
            "expected one that releases vectors."
        )

    def groups_of_rows(self, rows: NDArray[np.int64]) -> list[int]:
        """Return the group that each of these table rows is replaced in: all words are of one."""
        return [0] * len(rows)

    def places_of_words(self, text: PreparedText) -> NDArray[np.int64]:
        """Return the position in its release of each word of a text, (n,); -1: it has none."""
        return np.arange(len(text.words))

    def is_possible(self, text: PreparedText, column: str, value: Any) -> bool:
        """Whether a column of a release can have this value for a text."""
        return value is not None


def check_categories(mechanism: Mechanism, categories: Sequence[str] | None) -> None:
    """Check that a mechanism is used with or without categories as its paper defines it.

    Raises:
        RaptError: it is not.
    """
    if mechanism.categories == "none" and categories is not None:
        raise RaptError(
            f"categories: got some, expected none with mechanism {mechanism.name}: every word gets "
            "noise."
        )
    if mechanism.categories == "required" and categories is None:
        raise RaptError(f"categories: got none, expected some with mechanism {mechanism.name}.")


def as_float32(noisy: NDArray[np.float64], of: AnyPrivatizer[Any]) -> NDArray[np.float32]:
    """Return released vectors in float32, which holds numbers of a grid as they are.

    Raises:
        RaptError: the mechanism rounds to a grid that is too fine for float32.
    """
    single, grid = noisy.astype(np.float32), getattr(of.mechanism, "grid", None)
    if grid is not None and not (single == noisy).all():
        raise RaptError(
            f"mechanism.grid: got {grid} at eta {of.eta:g}, expected a larger "
            "power of two, as float32 holds no number of more than 24 bits."
        )
    return single
