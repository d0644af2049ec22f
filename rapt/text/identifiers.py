"""Identifiers: words that point at somebody, whatever part of speech a tagger takes them for."""

from __future__ import annotations

import re

from spacy.tokens import Doc, Token

KINDS = ("number", "email", "url", "handle")
# spaCy may split a long address into several words; a pattern marks each of them. No pattern reads
# a character more than a few times (possessive runs that begin at a boundary), however long a line.
_PATTERNS = {
    "handle": re.compile(r"(?<!\w)[@＠]\w(?:[\w.-]*\w)?"),
    "email": re.compile(r"(?<![\w.+%-])[\w.+%-]++[@＠]\w(?:[\w.-]*\w)?"),
    "url": re.compile(
        r"(?:(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://|\bwww\.)\S*[^\s.,;:!?'\")\]}>»]", re.IGNORECASE
    ),
}


def placeholder(kind: str) -> str:
    """What an identifier of this kind is released as."""
    return f"<{kind}>"


def kinds(doc: Doc) -> list[str | None]:
    """The kind of identifier that each token is, or is a part of; None where it is none."""
    found = [_kind(token) for token in doc]
    for kind, pattern in _PATTERNS.items():  # an address that two patterns match is of the later
        for match in pattern.finditer(doc.text):
            for token in doc.char_span(*match.span(), alignment_mode="expand") or ():
                found[token.i] = kind
    return found


def _kind(token: Token) -> str | None:
    if token.like_email:
        return "email"
    if token.like_url:
        return "url"
    # Any digit makes a number: flats, number plates, doses, accounts are written with letters too.
    if token.like_num or any(character.isnumeric() for character in token.text):
        return "number"
    return None
