"""Identifiers: words that point at a person, whatever their part of speech."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the privatizer of texts that are tagged already needs no spaCy
    from spacy.tokens import Doc, Token

KINDS = ("number", "email", "url", "handle", "markup")
# spaCy may split a long address into several words; a pattern marks each of them. Possessive
# quantifiers and boundaries keep matching linear in the length of a line.
_PATTERNS = {
    "handle": re.compile(r"(?<!\w)[@＠]\w(?:[\w.-]*\w)?"),
    "email": re.compile(r"(?<![\w.+%-])[\w.+%-]++[@＠]\w(?:[\w.-]*\w)?"),
    "url": re.compile(
        r"(?:(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://|\bwww\.)\S*[^\s.,;:!?'\")\]}>»]", re.IGNORECASE
    ),
    "markup": re.compile(r"<[/!?]?[a-z][^<>]*>", re.IGNORECASE),
}


def kinds(doc: Doc) -> list[str | None]:
    """Return for each token the kind of identifier that it belongs to, or None."""
    found = [_kind(token) for token in doc]
    for kind, pattern in _PATTERNS.items():  # of two matching patterns the later wins
        for match in pattern.finditer(doc.text):
            for token in doc.char_span(*match.span(), alignment_mode="expand") or ():
                found[token.i] = kind
    return found


def _kind(token: Token) -> str | None:
    if token.like_email:
        return "email"
    if token.like_url:
        return "url"
    # A token with any digit is a number: flats, number plates, doses and accounts contain letters.
    if token.like_num or any(character.isnumeric() for character in token.text):
        return "number"
    return None
