"""Splitting texts into words with their Universal POS tags, by spaCy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module

from spacy.language import Language
from spacy.tokens import Doc

from rapt.text import identifiers
from rapt.text.characters import visible
from rapt.text.language import of_tagger
from rapt.text.tagged import Tagged
from rapt.utils.batches import by_size
from rapt.utils.errors import RaptError

CHARACTERS = 100_000  # tagged at a time
UNSEEN = "\ufffd"


class Tagger:
    """A spaCy model that comes as an importable package.

    Attributes:
        language: its code, with which the package's name begins.
    """

    def __init__(self, package: str, tags: bool = True) -> None:
        """Load the model's tagger.

        Args:
            package: name of the package that holds the model.
            tags: whether `texts` tags words, which takes most of its time; else it splits texts
                into the same words, and every tag is empty.

        Raises:
            RaptError: the package is not installed, or is no spaCy model.
        """
        self.language = of_tagger(package)
        self._nlp = load(package, exclude=["parser", "ner", "lemmatizer"])
        self._tags = tags

    def texts(self, texts: Iterable[str], *, split: bool = False) -> Iterator[Tagged]:
        """Tag whole texts, every word in its context.

        What spaCy stores of new words goes with their batch, so that memory stays flat.

        Args:
            texts: as they are.
            split: whether they are words already, with a space between, each to stay one.
        """
        make = self._as_split if split else self._visible
        for batch in by_size(texts, len, CHARACTERS):
            with self._nlp.memory_zone():
                docs = map(make, batch)
                taken = [read(doc) for doc in (self._nlp.pipe(docs) if self._tags else docs)]
            yield from taken

    def words(self, words: Iterable[str]) -> Iterator[str]:
        """The most likely tag of each word out of context: the word is the whole document."""
        for doc in self._nlp.pipe(Doc(self._nlp.vocab, words=[word]) for word in words):
            yield doc[0].pos_

    def _visible(self, text: str) -> Doc:
        return self._nlp.make_doc(visible(text))

    def _as_split(self, text: str) -> Doc:
        words = text.split(" ")
        return Doc(self._nlp.vocab, words=words, spaces=[True] * (len(words) - 1) + [False])


def load(package: str, exclude: Sequence[str]) -> Language:
    """A spaCy model without some of its components.

    Args:
        package: name of the importable package that holds the model.
        exclude: names of the components.

    Raises:
        RaptError: the package is not installed, or is no spaCy model.
    """
    try:
        model: Language = import_module(package).load(exclude=list(exclude))
    except (ImportError, AttributeError, OSError) as error:
        raise RaptError(
            f"tagger: got {package!r}, expected an installed spaCy model. Try: "
            f"python -m spacy download {package}"
        ) from error
    return model


def read(doc: Doc) -> Tagged:
    """Take the words of a tagged document out of it, as a reader sees them; they outlive it.

    Every token but white space is a word: one that nobody sees is UNSEEN.
    """
    text, found = doc.text, identifiers.kinds(doc)  # spaCy joins a text anew each time
    kept = [token for token in doc if not token.is_space]
    ends = [token.idx + len(token) for token in kept]
    return Tagged(
        ["".join(visible(token.text).split()) or UNSEEN for token in kept],
        [token.pos_ for token in kept],
        [text[end : end + 1].isspace() for end in ends],
        [found[token.i] for token in kept],
    )
