"""What every attack is: parameters, what its attacker knows, and how it is fitted and used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:  # params.yaml is validated with this module: every command would load Arrow
    from rapt.privacy.channel import Channel
    from rapt.text.table import EmbeddingTable

Texts = Sequence[Sequence[str]]
Vectors = NDArray[np.float32]


class Attack(BaseModel, ABC):
    """An attack; its fields are its parameters as params.yaml has them, without defaults.

    One is `type`, its name.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    source: ClassVar[str]
    # What the attacker has beside the victims' release.
    knows: ClassVar[str]


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
    def of(cls, statement: Mapping[str, Any], method: str, *, channel: bool) -> Public:
        """What the statement of a release tells whoever reads it.

        Args:
            statement: of the release.
            method: that its channel is estimated under.
            channel: whether the attack reads it.
        """
        from rapt.privacy import experiment
        from rapt.privacy.channel import Channel

        embedding, eta = statement["embedding"], statement["eta"]
        mechanism = {"type": statement["mechanism"], **statement["parameters"]}
        privatizer = experiment.privatizer(embedding, mechanism, statement["categories"], eta)
        size = len(privatizer.table.words)
        groups = np.asarray(privatizer.groups_of_rows(np.arange(size)), np.int64)
        path = Path(f"models/channels/{embedding}/{method}-{eta}")
        return cls(privatizer.table, groups, Channel.load(path, size) if channel else None)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Texts of the attacker's own: of the train split, of which the victims have none.

    Attributes:
        words: of each text, as the table writes them.
        released: one for each word, by the mechanism that is attacked.
    """

    words: Texts
    released: Texts


@dataclass(frozen=True)
class Inverter:
    """A fitted inversion.

    Attributes:
        words: from as many releases of the same texts as the attack takes, for each word the one
            that stood there, as guessed.
        vectors: of n released words the vectors (n, d) of the words that stood there, as guessed;
            None: the attack guesses words alone.
    """

    words: Callable[[Sequence[Texts]], list[list[str]]]
    vectors: Callable[[Sequence[str]], Vectors] | None = None


class Inversion(Attack):
    """An attack that asks which word stood where a word was released."""

    # Whether it wants the channel: it is then used on the methods of sweep.channels alone.
    reads_channel: ClassVar[bool] = False

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
    """An attack that asks for a private attribute of a text's author."""

    @abstractmethod
    def guesses(
        self,
        own: tuple[Vectors, Sequence[str]],
        victims: Vectors,
        seed: int,
    ) -> list[str]:
        """Learn from the attacker's own texts, then guess the victims' attribute.

        Args:
            own: features (n, d) and attribute values.
            victims: features of other texts, (m, d).
            seed: of all that is random, below 2³².
        """


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
