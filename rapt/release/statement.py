"""The privacy statement of a release, and the counts of words that it contains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from rapt import __version__
from rapt.privacy import strength
from rapt.privacy.statement import KINDS
from rapt.privacy.statement import statement as of_privatizer
from rapt.release.sentences import MINIMUM
from rapt.release.text import (
    NAMES,
    NOISE,
    NUMBERED,
    PLACEHOLDER,
    SHARED,
    VERBATIM_KIND,
    TextPrivatizer,
    Word,
)
from rapt.text.detectors import FORMS
from rapt.text.language import of_tagger

FRESH = "ChaCha20, keyed by the operating system anew for every text: nobody can replay it"
SEEDED = "INSECURE: seeded, for tests alone; whoever knows the seed can undo the noise"


@dataclass
class Counts:
    """Counts of a release.

    Attributes:
        documents: number of rows of the input.
        most: number of words that got noise in the document with the most of them.
        fates: number of words by their fate (rapt.release.text).
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

    def add(self, document: Sequence[Sequence[Word]]) -> None:
        """Count one document, given the words of its texts, one text for each column."""
        words = list(chain.from_iterable(document))
        fates = Counter(word.fate for word in words)
        self.documents += 1
        self.most = max(self.most, fates[NOISE])
        self.fates += fates
        self.replaced += sum(word.fate == NOISE and not _is_same(word) for word in words)
        self.unchanged += sum(
            any(map(_is_word, text)) and all(map(_is_same, text)) for text in document
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
        kinds = dict.fromkeys(FORMS.kinds if fate == PLACEHOLDER else KINDS, 0)
        some = {
            name.removeprefix(fate): n for name, n in self.fates.items() if name.startswith(fate)
        }
        return kinds | some


def _is_word(word: Word) -> bool:
    return any(map(str.isalnum, word.original))


def _is_same(word: Word) -> bool:
    return word.original.lower() == word.released.lower()


COUNTS = TypeAdapter(Counts)


def statement(privatizer: TextPrivatizer, columns: Sequence[str], counts: Counts) -> dict[str, Any]:
    """Build the privacy statement of a release, as JSON (docs/privatize.md)."""
    content = of_privatizer(
        privatizer.privatizer,
        eta=repr(privatizer.eta).removesuffix(".0"),
        documents=counts.documents,
        noise=counts.fates[NOISE],
        longest=counts.most,
        verbatim=counts.kinds(VERBATIM_KIND),
        placeholders=counts.kinds(PLACEHOLDER),
        columns=sorted(counts.others),
        spacing="as in the texts" if privatizer.keep_spacing else "single spaces",
        names={name: counts.names[name] for name in ("noise", "placeholder", "verbatim")},
        generator=FRESH if privatizer.insecure_seed is None else SEEDED,
        rapt=__version__,
        tagger=privatizer.tagger,
        language=privatizer.language or of_tagger(privatizer.tagger),
        privatized_columns=list(columns),
    )
    content["strength"]["read"] = strength.read(privatizer.privatizer)
    gaps = content["not_covered"]
    if privatizer.categories and not privatizer.keep_identifiers:
        gaps.append(
            "Numbers, e-mail addresses, URLs, handles and markup are replaced by placeholders "
            "where their form is recognized. Which words are is not hidden."
        )
    if privatizer.names != NAMES[0] or privatizer.detectors:
        gaps.append(
            "Words that a detector marks become placeholders before the noise, by a public rule: "
            "the guarantee holds given which words are marked. A tagger errs: what it does not "
            "mark is treated like any other word."
        )
    if privatizer.names == NUMBERED:
        gaps.append("Which names of a text are the same.")
    gaps.append(
        "The user's ledger counts how often a text was released, and each of its sentences of "
        f"{MINIMUM} or more words with noise. It does not count a sentence that is less than half "
        "of another text."
    )
    if counts.others:
        gaps.append(f"Columns released as they are: {', '.join(sorted(counts.others))}.")
    return content
