"""What a release says about itself: what is protected, and what stands in it as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rapt import __version__
from rapt.privacy.budget import Budget, Distances, distances
from rapt.privacy.mechanisms import Space
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.statement import statement as of_privatizer
from rapt.release import identifiers
from rapt.release.text import NOISE, PLACEHOLDER, VERBATIM_KIND, Released, TextPrivatizer

FRESH = "ChaCha20, keyed by the operating system anew for every text: nobody can replay it"
SEEDED = "INSECURE: seeded, for tests alone; whoever knows the seed can undo the noise"
_PLURALS = {
    "number": "numbers",
    "email": "e-mail addresses",
    "url": "URLs",
    "handle": "handles",
    "punctuation": "punctuation",
    "other": "words of categories not selected",
}


@dataclass
class Counts:
    """What a release holds, as numbers.

    Attributes:
        documents: rows of the input.
        most: words that got noise in the document with the most of them.
        fates: what became of the words (rapt.release.text), and how many of each.
        replaced: words that got noise and became another word; not for the statement.
        others: the names of the columns that are released as they are.
    """

    documents: int = 0
    most: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    replaced: int = 0
    others: set[str] = field(default_factory=set)

    def add(self, document: Sequence[Released]) -> None:
        """Count one document: its texts, of one column each."""
        self.documents += 1
        self.most = max(self.most, sum(text.fates.count(NOISE) for text in document))
        for text in document:
            self.fates.update(text.fates)
            words = zip(text.originals, text.words, text.fates, strict=True)
            self.replaced += sum(
                fate == NOISE and before.lower() != after.lower() for before, after, fate in words
            )

    def update(self, other: Counts) -> None:
        """Add those of another part."""
        self.documents += other.documents
        self.most = max(self.most, other.most)
        self.fates += other.fates
        self.replaced += other.replaced
        self.others |= other.others

    def as_json(self) -> dict[str, Any]:
        """Plain values; `Counts.from_json` reads them."""
        return asdict(self) | {"fates": dict(self.fates), "others": sorted(self.others)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Counts:
        """Read what `as_json` gave."""
        fates, others = Counter(content["fates"]), set(content["others"])
        return cls(**content | {"fates": fates, "others": others})

    @property
    def words(self) -> int:
        """All words of all documents."""
        return self.fates.total()

    def kinds(self, fate: str) -> dict[str, int]:
        """How many words have this fate (PLACEHOLDER or VERBATIM_KIND), by kind."""
        kinds = identifiers.KINDS if fate == PLACEHOLDER else _PLURALS
        return {kind: self.fates[fate + kind] for kind in kinds}


def statement(privatizer: TextPrivatizer, columns: Sequence[str], counts: Counts) -> dict[str, Any]:
    """The privacy statement of a release, as JSON (docs/privatize.md)."""
    options = privatizer.options
    budget, between = _budget(privatizer.privatizer, counts.most)
    content = of_privatizer(
        privatizer.privatizer,
        eta=repr(options.eta).removesuffix(".0"),
        rapt=__version__,
        tagger=options.tagger,
        documents=counts.documents,
        words=counts.words,
        noise=counts.fates[NOISE],
        placeholders=counts.kinds(PLACEHOLDER),
        verbatim=counts.kinds(VERBATIM_KIND),
        columns={"privatized": list(columns), "released as they are": sorted(counts.others)},
        spacing="as in the texts" if options.keep_spacing else "single spaces",
        budget_of_the_longest=budget.as_json(between),
        generator=FRESH if options.insecure_seed is None else SEEDED,
    )
    if options.categories and not options.keep_identifiers:
        content["not_covered"].append(
            "Of the words of other categories, numbers, e-mail addresses, URLs and handles are "
            "replaced by placeholders where they are recognized."
        )
    if counts.others:
        content["not_covered"].append("Columns that were not named are released as they are.")
    return content


def plain_words(content: dict[str, Any]) -> str:
    """The statement in plain words."""
    budget = content["budget_of_the_longest"]
    losses = [
        f"{name}: at distance {loss['distance']:.3g} at most exp({loss['at_most']:.4g})"
        for name, loss in budget["loss"].items()
        if loss["at_most"] is not None
    ]
    categories = content["categories"]
    scope = (
        f"within their part of speech ({', '.join(categories)})" if categories else "all of them"
    )
    verbatim = _listing(content["verbatim"])
    placeholders = _listing(content["placeholders"])
    others = content["columns"]["released as they are"]
    facts = [
        f"{content['documents']} documents with {content['words']} words were privatized by "
        f"{content['mechanism']} at eta {content['eta']}.",
        f"{content['noise']} words got noise: {scope}.",
        f"Replaced by placeholders: {placeholders or 'nothing'}.",
        f"Released word for word: {verbatim or 'nothing'}.",
        f"Columns released as they are: {', '.join(others) or 'none'}.",
        f"Noise: {content['generator']}.",
        f"Spacing: {content['spacing']}.",
    ]
    return "\n".join(
        [
            "PRIVACY STATEMENT",
            "",
            *facts,
            "",
            f"Protection: {content['protection']}, which is weaker than epsilon-differential "
            "privacy: how well two words are hidden from each other depends on their distance.",
            content["guarantee"],
            f"d is the {content['metric']} in the table with sha256 {content['table_sha256']}; "
            "eta means nothing without it.",
            "",
            f"Losses add up. In the longest document {budget['words']} words got noise. How much "
            "likelier its release is from it than from a text in which each of them is another "
            "word:",
            *(f"- {loss}" for loss in losses),
            "",
            "Not covered:",
            *(f"- {gap}" for gap in content["not_covered"]),
            "- Releasing the same text again averages the noise away.",
            "",
        ]
    )


def _budget(privatizer: Privatizer, words: int) -> tuple[Budget, Distances]:
    """Of a document with so many words that got noise, and what its distances are like."""
    table, rows = privatizer.table, privatizer.candidates
    between = distances(privatizer.mechanism, Space(table.vectors[rows], table.frequency[rows]))
    return Budget(privatizer.mechanism, privatizer.eta, words), between


def _listing(kinds: dict[str, int]) -> str:
    return ", ".join(f"{count} {_PLURALS[kind]}" for kind, count in kinds.items() if count)
