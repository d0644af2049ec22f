"""Splitting texts into words with their Universal POS tags, by spaCy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from rapt.errors import RaptError


class Tagged(NamedTuple):
    """The words of one text, in order; white space is not a word."""

    words: list[str]
    pos: list[str]
    space_after: list[bool]


class Tagger:
    """A spaCy model that comes as an importable package."""

    def __init__(self, package: str) -> None:
        """Load the model's tagger.

        Args:
            package: name of the package that holds the model.

        Raises:
            RaptError: the package is not installed, or is no spaCy model.
        """
        try:
            self._nlp: Language = import_module(package).load(
                exclude=["parser", "ner", "lemmatizer"]
            )
        except (ImportError, AttributeError, OSError) as error:
            raise RaptError(f"tagger: {package!r} is not an installed spaCy model") from error

    def texts(self, texts: Iterable[str]) -> Iterator[Tagged]:
        """Tag whole texts, every word in its context."""
        for doc in self._nlp.pipe(texts):
            kept = [token for token in doc if not token.is_space]
            yield Tagged(
                [token.text for token in kept],
                [token.pos_ for token in kept],
                [bool(token.whitespace_) for token in kept],
            )

    def words(self, words: Iterable[str]) -> Iterator[str]:
        """The most likely tag of each word out of context: the word is the whole document."""
        for doc in self._nlp.pipe(Doc(self._nlp.vocab, words=[word]) for word in words):
            yield doc[0].pos_
