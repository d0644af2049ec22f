"""Which words of a source of triples, and of a text written from it, share their noise.

Subjects and objects are entities. Each distinct word of an example's entities gets noise once: in
the source, and wherever the text mentions it (RAPT, section V-A1). Texts often mention an entity in
other words, of which RAPT says nothing. So single words of it are protected, too, and so are proper
nouns and numbers that belong to no entity.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rapt.text.tagging import Tagged

NO_NOISE = -1
# How a text mentions an entity: in all its words, in some, or in none.
WHOLE, SOME, NONE = "whole", "some", "none"
# Words of an entity that are protected beside its others alone: "of" says nothing by itself.
FUNCTION = frozenset({"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "PUNCT", "SCONJ", "SYM"})
NAMES = frozenset({"NUM", "PROPN"})


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


def marks(source: Tagged) -> list[bool]:
    """Return whether each word of a source parts its triples: |, or & beside another."""
    words = source.words
    beside = [*words[1:], ""], ["", *words[:-1]]
    return [
        word == "|" or (word == "&" and "&" in near)
        for word, *near in zip(words, *beside, strict=True)
    ]


def entities(source: Tagged) -> list[range]:
    """Return the places of each subject and object of a source, in order; none without triples."""
    parts, start = list[range](), 0
    parting = marks(source)
    if not any(parting):
        return []
    for at, is_mark in enumerate([*parting, True]):
        if is_mark:
            if at > start:
                parts.append(range(start, at))
            start = at + 1
    return [part for number, part in enumerate(parts) if number % 3 != 1]


def of_words(source: Tagged, text: Tagged) -> Shared:
    """Give every word its own noise, but none to what parts the triples."""
    parting = [*marks(source), *([False] * len(text.words))]
    return Shared([NO_NOISE if is_mark else at for at, is_mark in enumerate(parting)], [])


def of_entities(source: Tagged, text: Tagged) -> Shared:
    """Give noise to the words of entities, in the source and where the text mentions them."""
    both = source.then(text)
    forms = [form(word) for word in both.words]
    spans, start = entities(source), len(source.words)
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
    for at in range(start, len(forms)):
        known = first.get(forms[at])
        if noise[at] != NO_NOISE:
            continue
        if known is not None and both.pos[known] not in FUNCTION:
            noise[at] = known
        elif both.pos[at] in NAMES or both.identifiers[at]:
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


def _places(forms: Sequence[str], wanted: Sequence[str], start: int) -> Iterator[range]:
    """Yield where these forms follow each other, from a place on."""
    size = len(wanted)
    for at in range(start, len(forms) - size + 1):
        if tuple(forms[at : at + size]) == wanted:
            yield range(at, at + size)


def _content(span: range, both: Tagged, noise: Sequence[int]) -> set[int]:
    return {noise[at] for at in span if both.pos[at] not in FUNCTION}
