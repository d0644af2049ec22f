"""The mechanisms: which words get noise, and among which words each is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rapt.errors import RaptError, not_allowed

# RAPT, section on PCT2T: the first four by default, the others for its study.
CATEGORIES: dict[str, tuple[str, ...]] = {
    "noun": ("NOUN", "PROPN"),
    "verb": ("VERB", "AUX"),
    "pronoun": ("PRON",),
    "preposition": ("ADP",),
    "adjective": ("ADJ",),
    "symbol": ("SYM", "PUNCT"),
    "determiner": ("DET",),
    "conjunction": ("CCONJ", "SCONJ"),
}
# What makes "all" a partition of every tag, each searched within itself. A context may tag a word
# X or INTJ where out of context hardly any word is: those stand together with the adverbs' rest.
REST: dict[str, tuple[str, ...]] = {
    "adverb": ("ADV", "PART"),
    "number": ("NUM",),
    "other": ("INTJ", "X", "SPACE", ""),
}
VERBATIM = -1


class Mechanism(Protocol):
    """A text-to-text mechanism: groups of table rows, and the group of a tagged word.

    A word of group g gets noise and becomes its nearest neighbour among the rows of g; a word of
    the group VERBATIM stays as it is. Its bound for words of one group: η·‖E(w) − E(w')‖.
    """

    name: ClassVar[str]
    metric: ClassVar[str]

    def groups(self, pos: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        """The table rows of each group, from the tags of the table's words."""

    def group_of(self, tag: str) -> int:
        """The group of a word with this tag in its context, or VERBATIM."""

    def guarantee(self, eta: str) -> str:
        """What holds, in one sentence."""

    def not_covered(self) -> list[str]:
        """What does not, a sentence each."""


@dataclass(frozen=True)
class T2T:
    """Text-to-text privatization (Feyisetan et al., 2020): every word, the whole table."""

    name: ClassVar[str] = "t2t"
    metric: ClassVar[str] = "Euclidean distance of word embeddings"

    def groups(self, pos: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        """One group of all rows."""
        return [np.arange(len(pos))]

    def group_of(self, tag: str) -> int:
        """The one group, whatever the tag."""
        return 0

    def guarantee(self, eta: str) -> str:
        """The bound for a word and for a text."""
        return (
            f"Every word is released by a mechanism M with P[M(w)=y] <= "
            f"exp({eta} * d(w, w')) * P[M(w')=y] for all words w, w', y; losses add up over words."
        )

    def not_covered(self) -> list[str]:
        """The length of the text."""
        return ["The number of words of each text is released as it is."]


@dataclass(frozen=True)
class PCT2T:
    """POS-constrained T2T (RAPT): words of the chosen categories, each within its category.

    Attributes:
        categories: names of CATEGORIES, or "all" alone.
    """

    name: ClassVar[str] = "pct2t"
    metric: ClassVar[str] = "Euclidean distance of word embeddings"
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        for category in self.categories:
            if category not in (*CATEGORIES, "all"):
                raise RaptError(not_allowed("categories", category, (*CATEGORIES, "all")))

    def _scheme(self) -> dict[str, tuple[str, ...]]:
        if self.categories == ("all",):
            return CATEGORIES | REST
        return {name: CATEGORIES[name] for name in self.categories}

    def groups(self, pos: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        """A group for each category.

        Raises:
            RaptError: fewer than two words of the table are in a category, which would release
                every word of it as the same one, or leave nothing to release.
        """
        groups = []
        for name, tags in self._scheme().items():
            rows = np.flatnonzero([any(tag in tags for tag in word) for word in pos])
            if len(rows) < 2:
                raise RaptError(
                    f"categories: {name!r} has {len(rows)} words in this table, allowed: 2 or more"
                )
            groups.append(rows)
        return groups

    def group_of(self, tag: str) -> int:
        """The group of the tag's category, or VERBATIM."""
        for group, tags in enumerate(self._scheme().values()):
            if tag in tags:
                return group
        return VERBATIM

    def guarantee(self, eta: str) -> str:
        """The bound for words of the categories, given the tags."""
        return (
            f"Given the tag sequence, every word of the categories {', '.join(self._scheme())} is "
            f"released by a mechanism M with P[M(w)=y] <= exp({eta} * d(w, w')) * P[M(w')=y] for "
            "all words w, w', y of its category; losses add up over words."
        )

    def not_covered(self) -> list[str]:
        """Tags, length and the other words."""
        gaps = [
            "The number of words of each text is released as it is.",
            "The category of each word is released as it is: the guarantee holds given the tags.",
        ]
        if self.categories != ("all",):
            gaps.append(
                "Words of other categories (numbers, symbols, addresses, names that the tagger "
                "takes for something else) are released verbatim."
            )
        return gaps


MECHANISMS = (T2T.name, PCT2T.name)


def mechanism(name: str, categories: Sequence[str] | None) -> Mechanism:
    """The mechanism of a name.

    Raises:
        RaptError: there is no such mechanism or category.
    """
    match name:
        case T2T.name:
            return T2T()
        case PCT2T.name:
            return PCT2T(tuple(categories or ()))
    raise RaptError(not_allowed("mechanism", name, MECHANISMS))
