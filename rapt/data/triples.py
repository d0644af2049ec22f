"""Triples as one line of text: the sources of kind generate.

A triple is SUBJECT | PREDICATE | OBJECT, as WebNLG (Gardent et al., 2017) has it. Those of a source
are joined by && (Li and Liang, 2021), underscores are spaces, and double quotes are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

WITHIN, BETWEEN = " | ", " && "


def source(triples: Sequence[str]) -> str:
    """Return the triples of a source as one line."""
    return BETWEEN.join(map(spelled, triples))


def spelled(triple: str) -> str:
    """Return a triple, or several, with spaces for underscores and without double quotes."""
    return triple.replace("_", " ").replace('"', "")


def words_alone(source: str) -> str:
    """Return a source without what parts its triples: the text of who copies it."""
    return source.replace(BETWEEN, " ").replace(WITHIN, " ")


def entities(source: str) -> list[str]:
    """Return the distinct subjects and objects of a source; none of a text without triples."""
    triples = [triple.split(WITHIN) for triple in source.split(BETWEEN)]
    return list(dict.fromkeys(part for parts in triples if len(parts) == 3 for part in parts[::2]))


def are_in(text: str | None) -> bool:
    """Whether a text is of triples alone, whose parts are there and hold no marks themselves."""
    triples = [triple.split(WITHIN) for triple in (text or "").split(BETWEEN)]
    parts = [_printed(part).split() for triple in triples for part in triple]
    whole = all(words and not {"|", "&", "&&"} & {words[0], words[-1]} for words in parts)
    within = all("|" not in word and "&&" not in word for words in parts for word in words)
    return whole and within and all(len(triple) == 3 for triple in triples)


def _printed(text: str) -> str:
    """Remove the characters that are not printed: a word of these alone is no word."""
    return "".join(character for character in text if character.isprintable())
