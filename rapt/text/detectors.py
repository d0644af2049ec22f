"""Detectors: what marks the words of a text that a release shows as placeholders.

Other packages add a detector by an entry point of the group `rapt.detectors` (docs/extending.md).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from html.entities import html5
from typing import TYPE_CHECKING, ClassVar

from rapt.utils.errors import RaptError, not_allowed
from rapt.utils.registry import Registry

if TYPE_CHECKING:  # the privatizer of texts that are tagged already needs no spaCy
    from spacy.tokens import Doc, Token

Kinds = list[str | None]  # of each token; None: it is not marked
Span = tuple[int, int, str]  # where it starts and ends in the text, and its kind
KIND = re.compile(r"[a-z]+(-[a-z]+)*")
# spaCy may split a long address into several words; a pattern marks each of them. Possessive
# quantifiers and boundaries keep matching linear in the length of a line.
_PATTERNS = {
    "handle": re.compile(r"(?<!\w)[@＠]\w(?:[\w.-]*\w)?"),
    "email": re.compile(r"(?<![\w.+%-])[\w.+%-]++[@＠]\w(?:[\w.-]*\w)?"),
    "url": re.compile(
        r"(?:(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://|\bwww\.)\S*[^\s.,;:!?'\")\]}>»]", re.IGNORECASE
    ),
}
# Tags and comments of HTML and XML, and character references as &amp; and &#233;.
_MARKUP = re.compile(r"<!--.*?-->|<[/!?]?[a-z][^<>]*>|&(?:#\d+|#x[\da-f]+|[a-z]\w*);", re.I | re.S)
# Entities of spaCy's models that are no names of anybody or anything.
_NO_NAMES = frozenset(
    {"CARDINAL", "DATE", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME", "LANGUAGE"}
)
_FUNCTION = frozenset({"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "PUNCT", "SCONJ", "SPACE"})


class Detector(ABC):
    """Marks words of a text by a public rule.

    Attributes:
        name: of the detector, in options.
        kinds: what it marks, each in lower-case letters: a word of kind `name` becomes `<name>`.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]

    @abstractmethod
    def spans(self, doc: Doc) -> Iterable[Span]:
        """Find what is to be a placeholder.

        Args:
            doc: a text as spaCy split and tagged it; `doc.text` is the text, whose characters the
                spans count. Entities are set if the tagger's model knows any.
        """


class Forms(Detector):
    """Numbers, e-mail addresses, URLs, handles and markup, by their form."""

    name = "forms"
    kinds = ("number", "email", "url", "handle", "markup")

    def spans(self, doc: Doc) -> Iterable[Span]:
        """Find tokens, then patterns; of two that match, the later wins."""
        text = doc.text  # spaCy joins it anew each time
        for token in doc:
            if kind := _kind(token):
                yield token.idx, token.idx + len(token), kind
        for kind, pattern in _PATTERNS.items():
            for match in pattern.finditer(text):
                yield *match.span(), kind
        for start, end in markup(text):
            yield start, end, "markup"


def markup(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the tags, comments and character references of a text start and end."""
    for match in _MARKUP.finditer(text):
        found = match[0]
        if not found.startswith("&") or found[1] == "#" or found[1:] in html5:
            yield match.span()


class Names(Detector):
    """Names of persons, places, groups and things: what the tagger or its model marks as one.

    An address or a number is no name.
    """

    name = "names"
    kinds = ("name",)

    def spans(self, doc: Doc) -> Iterable[Span]:
        """Find proper nouns, and the words of entities."""
        for token in doc:
            is_entity = token.ent_type_ and token.ent_type_ not in _NO_NAMES
            is_name = token.pos_ == "PROPN" or (is_entity and token.pos_ not in _FUNCTION)
            if is_name and not _kind(token):
                yield token.idx, token.idx + len(token), "name"


DETECTORS: Registry[type[Detector]] = Registry(
    "rapt.detectors", Detector, lambda kind: kind.name, [Forms, Names]
)
FORMS = Forms()


def detector(name: str) -> Detector:
    """Make a detector.

    Raises:
        RaptError: there is none of this name, or a kind of its is not of lower-case letters.
    """
    if name not in DETECTORS:
        raise RaptError(not_allowed("detectors", name, DETECTORS))
    made = DETECTORS[name]()
    for kind in made.kinds:
        if not KIND.fullmatch(kind):
            raise RaptError(
                f"detectors: got kind {kind!r} of {name}, expected lower-case letters and hyphens."
            )
    return made


def marked(doc: Doc, detectors: Sequence[Detector] = (FORMS,)) -> Kinds:
    """The kind of what each token belongs to, or None: of two detectors the first marks a token.

    Raises:
        RaptError: a detector finds what is no part of the text, or of another kind than its own.
    """
    every: Kinds = [None] * len(doc)
    for one in detectors:
        ours: Kinds = [None] * len(doc)
        for start, end, kind in one.spans(doc):
            tokens = doc.char_span(start, end, alignment_mode="expand")
            if tokens is None or kind not in one.kinds:
                raise RaptError(
                    f"detector {one.name}: got characters {start} to {end} of kind {kind!r}, "
                    f"expected a part of the text, of {', '.join(one.kinds)}. Repair its package."
                )
            for token in tokens:
                ours[token.i] = kind
        every = [before or after for before, after in zip(every, ours, strict=True)]
    return every


def _kind(token: Token) -> str | None:
    if token.like_email:
        return "email"
    if token.like_url:
        return "url"
    # A token with any digit is a number: flats, number plates, doses and accounts contain letters.
    if token.like_num or any(character.isnumeric() for character in token.text):
        return "number"
    return None
