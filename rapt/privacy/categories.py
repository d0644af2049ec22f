"""Part-of-speech categories: which words get noise, and among which words each is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rapt.utils.errors import RaptError, not_allowed

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
ALL = "all"
VERBATIM = -1


def listed(given: Sequence[str]) -> list[str] | None:
    """Categories as a command line has them: one at a time, or several with commas; None: none."""
    names = [name.strip() for several in given for name in several.split(",")]
    return [name for name in names if name] or None


@dataclass(frozen=True)
class Scheme:
    """Groups of words: each word is replaced among the words of its own group.

    Attributes:
        categories: names of CATEGORIES, or "all" alone: a group for each category, given the tags
            (PCT2T, RAPT); None: every word is of one group (T2T).
    """

    categories: tuple[str, ...] | None

    def __post_init__(self) -> None:
        if self.categories is None:
            return
        for category in self.categories:
            if category not in (*CATEGORIES, ALL):
                raise RaptError(not_allowed("categories", category, (*CATEGORIES, ALL)))
        if not self.categories or (ALL in self.categories and len(self.categories) > 1):
            raise RaptError(
                f"categories: got {list(self.categories)}, expected some of "
                f"{', '.join(CATEGORIES)}, or 'all' alone."
            )

    @property
    def names(self) -> list[str]:
        """The name of each group."""
        return list(self._tags()) if self.categories else ["every word"]

    def groups(self, pos: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        """The table rows of each group, int64, from the tags of the table's words.

        Raises:
            RaptError: fewer than two words of the table are in a category, which would release
                every word of it as the same one, or leave nothing to release.
        """
        if self.categories is None:
            return [np.arange(len(pos))]
        groups = []
        for name, tags in self._tags().items():
            rows = np.flatnonzero([any(tag in tags for tag in word) for word in pos])
            if len(rows) < 2:
                raise RaptError(
                    f"categories: got {len(rows)} words of {name!r} in this table, expected 2 or "
                    "more."
                )
            groups.append(rows)
        return groups

    def group_of(self, tag: str) -> int:
        """The group of a word with this tag in its context, or VERBATIM: it stays as it is."""
        if self.categories is None:
            return 0
        for group, tags in enumerate(self._tags().values()):
            if tag in tags:
                return group
        return VERBATIM

    def scope(self) -> str:
        """Which words are protected, for a statement."""
        if self.categories is None:
            return "every word"
        return f"given the tag sequence, every word of the categories {', '.join(self._tags())}"

    def not_covered(self) -> list[str]:
        """What is released as it is, a sentence each."""
        gaps = ["The number of words of each text is released as it is."]
        if self.categories is not None:
            gaps.append(
                "The category of each word is released as it is: the guarantee holds given the "
                "tags."
            )
        if self.categories not in (None, (ALL,)):
            gaps.append(
                "Words of other categories (numbers, symbols, addresses, names that the tagger "
                "takes for something else) are released verbatim."
            )
        return gaps

    def _tags(self) -> dict[str, tuple[str, ...]]:
        if self.categories == (ALL,):
            return CATEGORIES | REST
        return {name: CATEGORIES[name] for name in self.categories or ()}
