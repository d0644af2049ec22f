"""What every attack is: parameters, what its attacker knows, and how it is fitted and used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rapt.param_types import Section
from rapt.utils import files

if TYPE_CHECKING:  # params.yaml is validated with this module: every command would load Arrow
    import pyarrow as pa

    from rapt.privacy.channel import Channel
    from rapt.privacy.privatizer import Privatizer
    from rapt.text.table import EmbeddingTable

Texts = Sequence[Sequence[str]]
Vectors = NDArray[np.float32]
Values = Mapping[str, Sequence[str]]


class Attack(Section, ABC):
    """An attack; its fields are its parameters as params.yaml has them; `type` is its name."""

    source: ClassVar[str]
    # What the attacker has beside the victims' release.
    knows: ClassVar[str]

    @property
    def given(self) -> str | None:
        """What it is handed beyond a release by rapt and what is public; None: nothing.

        Its figures are not those of the release at its η.
        """
        return None


@dataclass(frozen=True, eq=False)
class Public:
    """What anyone has who knows the mechanism.

    Attributes:
        table: the mechanism's.
        groups: of each of its V words the group that it is replaced in, int64 (V,).
        channel: P(y|w); None where the attack does not read it.
    """

    table: EmbeddingTable
    groups: NDArray[np.int64]
    channel: Channel | None

    @classmethod
    def of(cls, privatizer: Privatizer, channel: Channel | None) -> Public:
        """What is known of the privatizer behind a release."""
        size = len(privatizer.table.words)
        groups = np.asarray(privatizer.groups_of_rows(np.arange(size)), np.int64)
        return cls(privatizer.table, groups, channel)


@dataclass(frozen=True, eq=False)
class Release:
    """Released texts, as their reader has them.

    Attributes:
        words: of each text, one for each of its own.
        vectors: float32 (words of all texts, d), where vectors are released: the words are the
            nearest to them. None: words alone are.
        noise: for whoever knows the seed of an experiment: of each text the noise that its words'
            vectors were given, float64 (words, d). None: nobody knows.
    """

    words: Texts
    vectors: Vectors | None = None
    noise: Callable[[], Iterator[NDArray[np.float64]]] | None = None

    @classmethod
    def read(
        cls,
        path: str | Path,
        noise: Callable[[pa.Table], Iterator[NDArray[np.float64]]] | None = None,
    ) -> Release:
        """Read one split of a release (docs/data.md).

        Args:
            path: its Parquet file.
            noise: what gives the noise of each of its rows; None: nobody knows.
        """
        table = files.read_parquet(path)
        return cls(
            table["words"].to_pylist(),
            files.vectors_of_column(table["vectors"]) if "vectors" in table.column_names else None,
            partial(noise, table) if noise else None,
        )

    def seen(self, table: EmbeddingTable) -> tuple[Vectors, NDArray[np.int64]]:
        """What stands for the words: vectors (k, d), and which of them for each word, (n,)."""
        flat = list(chain.from_iterable(self.words))
        if self.vectors is not None:
            return self.vectors, np.arange(len(flat))
        places = {word: place for place, word in enumerate(dict.fromkeys(flat))}
        return table.embed(list(places)), np.array([places[word] for word in flat], np.int64)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Texts of the attacker's own: of the train split, of which the victims have none.

    Attributes:
        words: of each text, as the table writes them.
        released: the same texts, by the mechanism that is attacked.
    """

    words: Texts
    released: Release


@dataclass(frozen=True)
class Inverter:
    """A fitted inversion.

    Attributes:
        words: from as many releases of the same texts as the attack takes, for each word the one
            that stood there, as guessed.
        vectors: of what is seen of n words (n, d) the vectors (n, d) of the words that stood
            there, as guessed; None: the attack guesses words alone.
    """

    words: Callable[[Sequence[Release]], list[list[str]]]
    vectors: Callable[[Vectors], Vectors] | None = None


class Inversion(Attack):
    """An attack that asks which word stood where a word was released."""

    # Whether it wants the channel: it is then used on the methods of sweep.channels alone.
    reads_channel: ClassVar[bool] = False
    # The mechanisms that it knows how to undo; None: any.
    mechanisms: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn what can be learned before the victims' release is seen.

        Args:
            public: what anyone knows.
            own: the attacker's own texts, before and after.
            seed: of all that is random, below 2³².
        """

    @property
    def takes(self) -> int:
        """How many releases of the same texts the attacker has."""
        return 1

    def ceilings(self, public: Public, counts: NDArray[np.int64], others: int) -> dict[str, float]:
        """What no attack of the kind exceeds, by the metric, where that is known.

        Args:
            public: as it was fitted with.
            counts: how often the victims have each word of the table, protected, int64 (V,).
            others: their protected words beside those.
        """
        return {}


class Inference(Attack):
    """An attack that asks for private attributes of a text's author."""

    @abstractmethod
    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Learn from the attacker's own texts, then guess the victims' attributes.

        Args:
            table: the mechanism's.
            own: n texts.
            values: of each attribute their n values, two different ones at least.
            victims: m other texts.
            seed: of all that is random, below 2³².

        Returns:
            of each attribute m values.
        """


def majority(values: Sequence[str]) -> float:
    """What always answering the commonest value reaches."""
    return max(Counter(values).values()) / len(values)


class Membership(Attack):
    """An attack that asks whether a text is of the data that an adapter was tuned on."""

    @abstractmethod
    def scores(
        self, probabilities: NDArray[np.float64], labels: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """How much each candidate looks like a member, (n,): the more, the higher.

        Args:
            probabilities: that the adapted model gives its classes, (n, classes).
            labels: its class, (n,).
        """
