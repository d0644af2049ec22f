"""Part-of-speech categories: the words that get noise, and the candidates to replace each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rapt.utils.errors import RaptError, not_allowed

# RAPT, section on PCT2T, has those up to the conjunction. The order decides the group of a word
# that has tags of several.
CATEGORIES: dict[str, tuple[str, ...]] = {
    "noun": ("NOUN", "PROPN"),
    "verb": ("VERB", "AUX"),
    "pronoun": ("PRON",),
    "preposition": ("ADP",),
    "adjective": ("ADJ",),
    "symbol": ("SYM", "PUNCT"),
    "determiner": ("DET",),
    "conjunction": ("CCONJ", "SCONJ"),
    "adverb": ("ADV", "PART"),
    "number": ("NUM",),
    # Words whose tag says little, and interjections. They get noise from the whole table, as a
    # table has hardly a word with these tags out of context.
    "other": ("INTJ", "X", "SPACE", ""),
}
OTHER = "other"
ALL = "all"
# Names that stand for several categories.
SETS: dict[str, tuple[str, ...]] = {
    # RAPT's default: adjectives, adverbs and numbers stay.
    "paper": ("noun", "verb", "pronoun", "preposition"),
    # Whatever carries content; what stays is determiners, conjunctions and punctuation.
    "content": ("noun", "verb", "pronoun", "preposition", "adjective", "adverb", "number", OTHER),
}
VERBATIM = -1


def listed(given: Sequence[str]) -> list[str] | None:
    """Split categories given on a command line one by one or with commas; None: none given."""
    names = [name.strip() for several in given for name in several.split(",")]
    return [name for name in names if name] or None


def joined(category: str) -> list[str]:
    """Return the categories whose words are one group, as those of noun+verb."""
    return category.split("+")


def expanded(categories: Sequence[str]) -> tuple[str, ...]:
    """Put the categories of a set in the place of its name, if that is all that is given."""
    return SETS.get(categories[0], tuple(categories)) if len(categories) == 1 else tuple(categories)


@dataclass(frozen=True)
class Scheme:
    """Groups of words, within which words are replaced.

    Attributes:
        categories: names of CATEGORIES, or only "all": a group for each category, given the tags
            (PCT2T, RAPT). Those joined by a plus, as noun+verb, are one group. None: all words are
            one group (T2T).
    """

    categories: tuple[str, ...] | None

    def __post_init__(self) -> None:
        if self.categories is None:
            return
        flat = [name for names in self.categories for name in joined(names)]
        if any(OTHER in joined(names) for names in self.categories if names != OTHER):
            raise RaptError(
                f"categories: got {OTHER!r} joined to others, expected it by itself: its words get "
                "noise from the whole table."
            )
        for category in flat:
            if category not in (*CATEGORIES, ALL):
                raise RaptError(not_allowed("categories", category, (*CATEGORIES, *SETS, ALL)))
        if not {*flat} - {OTHER} or (ALL in flat and len(flat) > 1):
            raise RaptError(
                f"categories: got {list(self.categories)}, expected some of "
                f"{', '.join(CATEGORIES)}, or one of {', '.join((*SETS, ALL))} alone."
            )

    @property
    def names(self) -> list[str]:
        """The name of each group; the last is that of OTHER, if the scheme has it."""
        return list(self._tags()) if self.categories else ["every word"]

    @property
    def has_other(self) -> bool:
        """Whether words of OTHER get noise."""
        return OTHER in self._tags()

    def groups(self, pos: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        """Return the table rows of each group but OTHER's, int64, from the table words' tags.

        Raises:
            RaptError: a category has fewer than two words of the table, so that its words would
                have one replacement or none.
        """
        if self.categories is None:
            return [np.arange(len(pos))]
        groups = []
        for name, tags in self._tags().items():
            if name == OTHER:
                continue
            rows = np.flatnonzero([any(tag in tags for tag in word) for word in pos])
            if len(rows) < 2:
                raise RaptError(
                    f"categories: got {len(rows)} words of {name!r} in this table, expected 2 or "
                    "more."
                )
            groups.append(rows)
        return groups

    def group_of(self, tag: str) -> int:
        """Return the group of a word with this tag in its context; VERBATIM: it is not replaced."""
        return 0 if self.categories is None else self._group_by_tag.get(tag, VERBATIM)

    def scope(self) -> str:
        """Describe the protected words, for a statement."""
        if self.categories is None:
            return "every word"
        return f"given the tag sequence, every word of the categories {', '.join(self._tags())}"

    def not_covered(self) -> list[str]:
        """Describe what is released unchanged, a sentence each."""
        gaps = ["The number of words of each text is released as it is."]
        covered = {name for names in self._tags() for name in joined(names)}
        left = [name for name in CATEGORIES if name not in covered]
        if self.categories is not None and left:
            gaps.append(
                f"Words of the categories {', '.join(left)}, and whatever the tagger takes for "
                "one, are released verbatim if the table has them."
            )
        return gaps

    @cached_property
    def _group_by_tag(self) -> dict[str, int]:
        groups = enumerate(self._tags().values())
        return {tag: group for group, tags in groups for tag in tags}

    def _tags(self) -> dict[str, tuple[str, ...]]:
        if self.categories == (ALL,):
            return CATEGORIES
        of_each = {
            names: tuple(tag for name in joined(names) for tag in CATEGORIES[name])
            for names in self.categories or ()
        }
        # Last, so that its group is that of words which the table does not know.
        return of_each | {OTHER: of_each.pop(OTHER)} if OTHER in of_each else of_each
