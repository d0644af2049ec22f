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
from rapt.privacy.statement import KINDS
from rapt.privacy.statement import statement as of_privatizer
from rapt.release.text import NOISE, PLACEHOLDER, VERBATIM_KIND, TextPrivatizer, Word
from rapt.text import identifiers
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
        others: names of the columns that are released unchanged.
        again: texts that were in another release before; not for the statement.
        nats: the most that one text has lost over all its releases; not for the statement.
        times: the same in releases like this one; not for the statement.
    """

    documents: int = 0
    most: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    replaced: int = 0
    others: set[str] = field(default_factory=set)
    again: int = 0
    nats: float = 0.0
    times: float = 0.0

    __pydantic_config__ = ConfigDict(ser_json_inf_nan="constants")  # nats without a bound

    def add(self, document: Sequence[Sequence[Word]]) -> None:
        """Count one document, given the words of its texts, one text for each column."""
        words = list(chain.from_iterable(document))
        fates = Counter(word.fate for word in words)
        self.documents += 1
        self.most = max(self.most, fates[NOISE])
        self.fates += fates
        self.replaced += sum(
            word.fate == NOISE and word.original.lower() != word.released.lower() for word in words
        )

    def update(self, other: Counts) -> None:
        """Add the counts of another part."""
        self.documents += other.documents
        self.most = max(self.most, other.most)
        self.fates += other.fates
        self.replaced += other.replaced
        self.others |= other.others
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
        kinds = identifiers.KINDS if fate == PLACEHOLDER else KINDS
        return {kind: self.fates[fate + kind] for kind in kinds}


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
        generator=FRESH if privatizer.insecure_seed is None else SEEDED,
        rapt=__version__,
        tagger=privatizer.tagger,
        language=privatizer.language or of_tagger(privatizer.tagger),
        privatized_columns=list(columns),
    )
    if privatizer.categories and not privatizer.keep_identifiers:
        content["not_covered"].append(
            "Of the words of other categories, numbers, e-mail addresses, URLs and handles are "
            "replaced by placeholders where they are recognized."
        )
    if counts.others:
        content["not_covered"].append("Columns that were not named are released as they are.")
    return content
