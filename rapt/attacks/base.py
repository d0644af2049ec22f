"""Base classes of the attacks: parameters, the attacker's knowledge, fitting and use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from rapt.param_types import Model, Section, Sha256
from rapt.utils import files

if TYPE_CHECKING:  # params.yaml is validated with this module: every command would load SciPy
    from rapt.privacy.base import AnyPrivatizer, PreparedText
    from rapt.privacy.channel import Channel
    from rapt.privacy.released import Released
    from rapt.text.table import EmbeddingTable

T = TypeVar("T")
Texts = Sequence[Sequence[str]]
Vectors = NDArray[np.float32]
Values = Mapping[str, Sequence[str]]
# Parameters of attacks that read by a model, most of them an encoder that they fine-tune.
EncoderModel = Annotated[
    Model, Field(description="the encoder that is fine-tuned, as in backbones")
]
ModelSha256 = Annotated[
    Sha256 | None, Field(description="of its model.safetensors; null: unchecked")
]
Layers = Annotated[PositiveInt, Field(description="of the encoder, the first ones")]
LearningRate = Annotated[PositiveFloat, Field(description="of AdamW, falling linearly to 0")]
Occurrence = tuple[str, int]  # a word as the table spells it, and the group it is replaced in
# Tunes a model on each of s sets of n candidates, bool (s, n), as the provider would. Returns the
# models' probabilities of all candidates' classes, (s, n, classes).
Tune = Callable[[NDArray[np.bool_]], NDArray[np.float64]]
# From an attacked model's probabilities of n candidates' classes, (n, classes), to a score of each.
Score = Callable[[NDArray[np.float64]], NDArray[np.float64]]
# From a release of m texts and n candidates, as the privatizer prepares them, to the score of each
# pair, (m, n): a higher one means more likely the original.
Match = Callable[["Release", Sequence["PreparedText"]], NDArray[np.float64]]


def by_text(texts: Texts, values: Iterable[T]) -> list[list[T]]:
    """Divide values, one for each word of all texts, by text."""
    rest = iter(values)
    return [list(islice(rest, len(text))) for text in texts]


class Attack(Section, ABC):
    """An attack; its fields are its parameters as params.yaml has them; `type` is its name."""

    source: ClassVar[str]
    # The attacker's knowledge beside the victims' release.
    attacker_knowledge: ClassVar[str]

    @property
    def given(self) -> str | None:
        """The attacker's input beyond one release and public knowledge; None: none.

        With it, the attack's figures do not measure the privacy of the release at its η.
        """
        return None


@dataclass(frozen=True, eq=False)
class Public:
    """Public knowledge about a mechanism.

    Attributes:
        table: the mechanism's embedding table of V words.
        groups: for each word, the group in which it is replaced, int64 (V,).
        channel: P(y|w); None if the attack does not read it.
        texts: public text, none of the victims'.
        privatizer: the mechanism itself, to privatize own texts by.
    """

    table: EmbeddingTable
    groups: NDArray[np.int64]
    channel: Channel | None
    texts: Sequence[PreparedText] = ()
    privatizer: AnyPrivatizer[Any] | None = None

    @classmethod
    def of(
        cls,
        privatizer: AnyPrivatizer[Any],
        channel: Channel | None,
        texts: Sequence[PreparedText] = (),
    ) -> Public:
        """Collect what is public about the privatizer of a release."""
        size = len(privatizer.table.words)
        groups = np.asarray(privatizer.groups_of_rows(np.arange(size)), np.int64)
        return cls(privatizer.table, groups, channel, texts, privatizer)


@dataclass(frozen=True, eq=False)
class Release:
    """Released texts, as their recipient sees them.

    Attributes:
        words: what stands at each position of each text: of most releases one for each word.
        vectors: float32 (positions of all texts, d), if vectors are released; None: the words are.
        anew: releases the same texts once more, with the noise of a seed and a number, for
            attackers who have the texts. None: they have not.
    """

    words: Texts
    vectors: Vectors | None = None
    anew: Callable[[int, int], Release] | None = None

    @classmethod
    def read(cls, path: str | Path) -> Release:
        """Read one split of a release (docs/data.md)."""
        from rapt.privacy.released import positions

        words, _, vectors = positions(files.read_parquet(path))
        return cls(words, vectors)

    @classmethod
    def of(cls, texts: Iterable[Released]) -> Release:
        """Collect what a privatizer has released."""
        every = list(texts)
        vectors = [text.vectors for text in every if text.vectors is not None]
        return cls([text.words for text in every], np.concatenate(vectors) if vectors else None)

    def only(self, rows: Iterable[int]) -> Release:
        """Return the release of some of the texts."""
        rows = list(rows)
        words, vectors = [self.words[row] for row in rows], None
        if self.vectors is not None:
            ends = np.cumsum([len(text) for text in self.words])
            parts = np.split(self.vectors, ends[:-1])
            vectors = np.concatenate([parts[row] for row in rows])
        return replace(self, words=words, vectors=vectors)

    def by_word(self, privatizer: AnyPrivatizer[Any], texts: Sequence[PreparedText]) -> Release:
        """Return one position for each word of the texts; of a word without one it is 0.

        Args:
            privatizer: of the release.
            texts: the originals, as it prepares them: which position is of which word is taken as
                known to the attacker.
        """
        if self.vectors is None or privatizer.releases.aligned:
            return self
        ends = np.cumsum([len(text) for text in self.words])[:-1]
        rows = []
        for vectors, text in zip(np.split(self.vectors, ends), texts, strict=True):
            places = privatizer.places_of_words(text)
            rows.append(np.where((places >= 0)[:, None], vectors[places], np.float32(0)))
        return Release([[""] * len(text.words) for text in texts], np.concatenate(rows))

    def seen(self, table: EmbeddingTable) -> tuple[Vectors, NDArray[np.int64]]:
        """Return vectors (k, d), and for each of the n positions the row of its vector, (n,)."""
        flat = list(chain.from_iterable(self.words))
        if self.vectors is not None:
            return self.vectors, np.arange(len(flat))
        places = {word: place for place, word in enumerate(dict.fromkeys(flat))}
        return table.embed(list(places)), np.array([places[word] for word in flat], np.int64)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The attacker's own texts, from the train split, and their release by the attacked mechanism.

    The victims' are from another split.
    """

    # As the table spells them.
    words: Texts
    released: Release


@dataclass(frozen=True)
class Inverter:
    """A fitted inversion.

    Attributes:
        words: guesses the original words of texts, given as many releases of them as the attack
            takes.
        vectors: guesses the original words' vectors (n, d), given n released ones (n, d); None:
            the attack guesses only words.
    """

    words: Callable[[Sequence[Release]], list[list[str]]]
    vectors: Callable[[Vectors], Vectors] | None = None


class Inversion(Attack):
    """An attack that guesses the original of each released word."""

    # Whether it reads the channel: it is then used only on the methods of sweep.channels.
    reads_channel: ClassVar[bool] = False
    # Whether it reads vectors of any space, hidden states, too: not only words or the table's.
    reads_states: ClassVar[bool] = False
    # Whether it learns from own pairs: it is then fitted anew to each seed's.
    reads_pairs: ClassVar[bool] = False

    @abstractmethod
    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn from public knowledge and own texts, before the victims' release is seen.

        Args:
            public: the public knowledge about the mechanism.
            own: the attacker's own texts, before and after privatization.
            seed: of all random draws, below 2³².
        """

    @property
    def takes(self) -> int:
        """The number of releases of the same texts that the attacker has: `copies`, else one."""
        return getattr(self, "copies", 1)

    @property
    def reads(self) -> Sequence[str]:
        """The tasks whose training rows are its public text: `public_text`, else none."""
        return getattr(self, "public_text", ())

    @property
    def given(self) -> str | None:
        """Further releases of the same texts, each of which costs η again."""
        return f"{self.takes} releases" if self.takes > 1 else None

    def upper_bounds(self, public: Public, words: Mapping[Occurrence, int]) -> dict[str, float]:
        """Return known upper bounds on the metrics of any attack of this kind, by metric.

        Args:
            public: the knowledge that the attack was fitted with.
            words: how often the victims have each protected word.
        """
        return {}


class Linkage(Attack):
    """An attack that finds the original of a release among candidates, by a score of each pair."""

    candidates: int = Field(
        1000, ge=2, description="texts of the test split, at most, each of which may be the one"
    )

    @abstractmethod
    def fit(self, privatizer: AnyPrivatizer[Any], own: Pairs, seed: int) -> Match:
        """Learn from public knowledge and own texts, before the victims' release is seen.

        Args:
            privatizer: the mechanism of the release at its η.
            own: the attacker's own texts, before and after privatization.
            seed: of all random draws, below 2³².

        Returns:
            what scores candidates.
        """


class Inference(Attack):
    """An attack that infers private attributes of a text's author."""

    # Whether it reads words; others read whatever is released.
    reads_words: ClassVar[bool] = False

    @abstractmethod
    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Learn from the attacker's own texts, then guess the victims' attributes.

        Args:
            table: the mechanism's embedding table.
            own: n texts.
            values: for each attribute, the n values of `own`, at least two of them distinct.
            victims: m other texts.
            seed: of all random draws, below 2³².

        Returns:
            for each attribute, m guessed values.
        """


class Membership(Attack):
    """An attack that infers whether a text is in the data that an adapter was tuned on."""

    @abstractmethod
    def fit(self, labels: NDArray[np.int64], tune: Tune, seed: int) -> Score:
        """Learn how membership shows, before any attacked model is asked.

        Args:
            labels: each candidate's true class, (n,).
            tune: tunes models on candidates that the attacker privatizes himself.
            seed: of all random draws, below 2³².

        Returns:
            what scores the candidates. A higher score means more likely a member.
        """
