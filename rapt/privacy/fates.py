"""The fate of each word of a text, and counts of them over a release.

`Privatizer.text` decides a word's fate; whoever counts, states or shows it reads it from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import NamedTuple

from pydantic import ConfigDict, TypeAdapter

# A fate is one of these; the last two are followed by the word's kind.
NOISE = "noise"
SHARED = "shared"  # the noise of an earlier word of the text
PLACEHOLDER, VERBATIM_KIND = "placeholder ", "verbatim "
# Kinds of words that get no noise, with their plural for statements.
KINDS = {
    "number": "numbers",
    "email": "e-mail addresses",
    "url": "URLs",
    "handle": "handles",
    "markup": "pieces of markup",
    "punctuation": "punctuation",
    "other": "other words",
}


class Word(NamedTuple):
    """A word before and after privatization.

    Attributes:
        original: as it stood.
        released: what became of it.
        fate: NOISE, SHARED, or PLACEHOLDER or VERBATIM_KIND followed by its kind.
        space_after: whether white space follows it.
        is_name: whether it is a proper noun; without tags, whether the table has it as one.
        group: the group in which it got noise (`Privatizer.text`).
    """

    original: str
    released: str
    fate: str
    space_after: bool
    is_name: bool = False
    group: int = 0


def verbatim(word: str, identifier: str | None) -> str:
    """Return the fate of a word that is released as it is.

    Args:
        word: any word.
        identifier: the kind of identifier that it belongs to, if any (rapt.text.detectors).
    """
    if identifier:
        return VERBATIM_KIND + identifier
    is_sign = not any(character.isalnum() for character in word)
    return VERBATIM_KIND + ("punctuation" if is_sign else "other")


@dataclass
class Counts:
    """Counts of a release.

    Attributes:
        documents: number of documents.
        most: number of words that got noise in the document with the most of them; where a text is
            released as a whole, of its releases.
        fates: number of words by their fate.
        replaced: number of words that noise turned into another word; not for the statement.
        unchanged: number of texts with words, all of which came out as they were; not for the
            statement.
        names: number of proper nouns by what became of them. `kept` counts those that came out as
            they were despite their noise; it is not for the statement.
        others: names of the columns that are released unchanged.
        halves: halves of surrogate pairs that became U+FFFD; not for the statement.
        again: texts that were in another release before; not for the statement.
        nats: the most that one text has lost over all its releases; not for the statement.
        times: the same in releases like this one; not for the statement.
    """

    documents: int = 0
    most: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    replaced: int = 0
    unchanged: int = 0
    names: Counter[str] = field(default_factory=Counter)
    others: set[str] = field(default_factory=set)
    halves: int = 0
    again: int = 0
    nats: float = 0.0
    times: float = 0.0

    # A mechanism without a bound loses an infinity of nats, which would be null.
    __pydantic_config__ = ConfigDict(ser_json_inf_nan="constants")

    def add_fates(self, fates: Iterable[str] | None) -> int:
        """Count the words of one document by their fates; returns how many got noise.

        None: the document is released as a whole, with the noise of one unit.
        """
        counts = Counter(fates or ())
        noisy = 1 if fates is None else counts[NOISE]
        self.documents += 1
        self.most = max(self.most, noisy)
        self.fates += counts
        return noisy

    def add(self, document: Sequence[Sequence[Word]]) -> None:
        """Count one document, given the words of its texts, one text for each column."""
        words = list(chain.from_iterable(document))
        self.add_fates(word.fate for word in words)
        self.replaced += sum(word.fate == NOISE and not _is_same(word) for word in words)
        self.unchanged += sum(
            any(any(map(str.isalnum, word.original)) for word in text) and all(map(_is_same, text))
            for text in document
        )
        for word in words:
            if word.is_name:
                has_noise = word.fate in (NOISE, SHARED)
                self.names["noise" if has_noise else word.fate.partition(" ")[0]] += 1
                self.names["kept"] += has_noise and _is_same(word)

    def update(self, other: Counts) -> None:
        """Add the counts of another part."""
        self.documents += other.documents
        self.most = max(self.most, other.most)
        self.fates += other.fates
        self.replaced += other.replaced
        self.unchanged += other.unchanged
        self.names += other.names
        self.others |= other.others
        self.halves += other.halves
        self.again += other.again
        self.nats = max(self.nats, other.nats)
        self.times = max(self.times, other.times)

    @property
    def lost(self) -> str:
        """The nats, in words."""
        return f"{self.nats:.4g} nats" if self.nats < inf else "without a bound"

    @property
    def words(self) -> int:
        """The number of words of all documents."""
        return self.fates.total()

    def kinds(self, fate: str) -> dict[str, int]:
        """Return the number of words with this fate (PLACEHOLDER or VERBATIM_KIND), by kind."""
        return {
            name.removeprefix(fate): n for name, n in self.fates.items() if name.startswith(fate)
        }


COUNTS = TypeAdapter(Counts)


def _is_same(word: Word) -> bool:
    return word.original.lower() == word.released.lower()
