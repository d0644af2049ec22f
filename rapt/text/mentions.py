"""Which words of a source of triples, and of a text written from it, share their noise.

Subjects and objects are entities. Each distinct word of an example's entities gets noise once: in
the source, and wherever the text mentions it (RAPT, section V-A1). Texts often mention an entity in
other words, of which RAPT says nothing. So single words of it are protected, too, and words that
begin alike. So are proper nouns, numbers and capitalized words that belong to no entity.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rapt.text.tagged import Tagged
from rapt.utils.errors import RaptError

NO_NOISE = -1
# How a text mentions an entity: in all its words, in some, or in none.
WHOLE, SOME, NONE = "whole", "some", "none"
# Words of an entity that are protected beside its others alone: "of" says nothing by itself.
FUNCTION = frozenset({"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "PUNCT", "SCONJ", "SYM"})
NAMES = frozenset({"NUM", "PROPN"})
SENTENCE_ENDS = frozenset('.!?:"“(')


@dataclass(frozen=True)
class Shared:
    """Which words of an example share their noise.

    Attributes:
        noise: for each word the place of the word whose noise it shares, its own if none before it
            does, or NO_NOISE.
        mentions: for each distinct entity how the text mentions it; empty without a text.
    """

    noise: list[int]
    mentions: list[str]


def form(word: str) -> str:
    """Return what the forms of a name or number have in common: case, accents, plural, commas."""
    try:
        return f"{float(word.replace(',', '')):.15g}"
    except ValueError:
        pass
    parts = unicodedata.normalize("NFKD", word.casefold())
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    return bare[:-1] if len(bare) > 3 and bare.endswith("s") else bare


def akin(one: str, other: str) -> bool:
    """Whether two forms begin alike, as Texas and Texan: but for the shorter's last letter."""
    least = min(len(one), len(other))
    return least >= 4 and one[: max(4, least - 1)] == other[: max(4, least - 1)]


def marks(source: Tagged) -> list[str | None]:
    """Return the mark that each word of a source is: | within a triple, & & between two."""
    words = source.words
    beside = zip(words, ["", *words], [*words[1:], ""], strict=False)
    return ["|" if w == "|" else "&" if w == "&" and "&" in near else None for w, *near in beside]


def entities(source: Tagged) -> list[range]:
    """Return the places of each subject and object of a source, in order; none without triples.

    Raises:
        RaptError: there are marks, but not triples of three parts each.
    """
    found = marks(source)
    if not any(found):
        return []
    parts: list[list[range]] = [[]]
    start = 0
    for at, mark in enumerate([*found, "&"]):
        if mark is None:
            continue
        parts[-1].append(range(start, at))
        start = at + 1
        if mark == "&" and at < len(found) and found[at - 1] != "&":
            parts.append([])  # the first of two
        elif mark == "&" and at < len(found):
            parts[-1].pop()  # between the two
    if any(len(triple) != 3 or not all(triple) for triple in parts):
        raise RaptError(
            "a source: got marks that part no triples, expected SUBJECT | PREDICATE | OBJECT, with "
            "&& between two triples. Correct it."
        )
    return [part for triple in parts for part in triple[::2]]


def of_words(source: Tagged, text: Tagged) -> Shared:
    """Give every word its own noise, but none to what parts the triples."""
    found = [*marks(source), *([None] * len(text.words))]
    return Shared([NO_NOISE if mark else at for at, mark in enumerate(found)], [])


def of_entities(source: Tagged, text: Tagged) -> Shared:
    """Give noise to the words of entities, in the source and where the text mentions them.

    Raises:
        RaptError: the source is not of triples.
    """
    both = source.then(text)
    forms = [form(word) for word in both.words]
    spans, start = entities(source), len(source.words)
    if not spans:
        raise RaptError("a source: got no triples, expected SUBJECT | PREDICATE | OBJECT.")
    first: dict[str, int] = {}
    for at in (at for span in spans for at in span):
        first.setdefault(forms[at], at)
    noise = [NO_NOISE] * len(forms)
    for at in (at for span in spans for at in span):
        noise[at] = first[forms[at]]
    told = {tuple(forms[at] for at in span): span for span in spans}
    whole = set()
    for entity in sorted(told, key=len, reverse=True):
        for found in _places(forms, entity, start):
            if all(noise[at] == NO_NOISE for at in found):
                for at in found:
                    noise[at] = first[forms[at]]
            whole.add(entity)
    content = {forms[at] for span in spans for at in span if both.pos[at] not in FUNCTION}
    for at in range(start, len(forms)):
        known = first.get(forms[at])
        if noise[at] != NO_NOISE:
            continue
        if known is not None and both.pos[known] not in FUNCTION:
            noise[at] = known
        elif _is_name(both, at, start) or any(akin(forms[at], other) for other in content):
            noise[at] = first.setdefault(forms[at], at)
    if not text.words:
        return Shared(noise, [])
    mentioned = set(noise[start:])
    return Shared(
        noise,
        [
            WHOLE if entity in whole else SOME if _content(span, both, noise) & mentioned else NONE
            for entity, span in told.items()
        ],
    )


PROTECTED = {"words": of_words, "entities": of_entities}


def _is_name(both: Tagged, at: int, start: int) -> bool:
    """Whether a word of a text is a name or a number, by its tag or as it is written."""
    if both.pos[at] in NAMES or both.identifiers[at]:
        return True
    inside = at > start and both.words[at - 1] not in SENTENCE_ENDS
    return inside and both.words[at][:1].isupper()


def _places(forms: Sequence[str], wanted: Sequence[str], start: int) -> Iterator[range]:
    """Yield where these forms follow each other, from a place on."""
    size = len(wanted)
    for at in range(start, len(forms) - size + 1):
        if tuple(forms[at : at + size]) == wanted:
            yield range(at, at + size)


def _content(span: range, both: Tagged, noise: Sequence[int]) -> set[int]:
    return {noise[at] for at in span if both.pos[at] not in FUNCTION}
