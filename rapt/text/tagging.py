"""Splitting texts into words with their Universal POS tags, by spaCy."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import chain, groupby

from spacy.language import Language
from spacy.symbols import ORTH
from spacy.tokens import Doc, Token

from rapt.text.characters import visible
from rapt.text.detectors import FORMS, Detector, marked, markup
from rapt.text.language import of_tagger
from rapt.text.tagged import Tagged
from rapt.utils.batches import by_size
from rapt.utils.errors import RaptError

CHARACTERS = 100_000  # tagged at a time
UNSEEN = "\ufffd"
DOUBTFUL = frozenset({"PUNCT", "SYM", "SPACE", "X"})  # tags that say nothing of a word of letters
REST = "X"
_RUN = re.compile(r"\S{200}")  # longer ones of signs are cut
CACHED = 1 << 14  # words whose tag out of context is kept at a time


class Tagger:
    """A spaCy model that comes as an importable package.

    Attributes:
        language: its code, with which the package's name begins.
    """

    def __init__(
        self, package: str, tags: bool = True, detectors: Sequence[Detector] = (FORMS,)
    ) -> None:
        """Load the model's tagger, and its recognizer of entities for detectors beside FORMS.

        Args:
            package: name of the package that holds the model.
            tags: whether `texts` tags words, which takes most of its time; else it splits texts
                into the same words, and every tag is empty.
            detectors: what marks identifiers.

        Raises:
            RaptError: the package is not installed, or is no spaCy model.
        """
        self.language = of_tagger(package)
        self._detectors = detectors
        recognizes = any(one is not FORMS for one in detectors)
        unused = ["parser", "lemmatizer", *([] if recognizes else ["ner"])]
        self._nlp = load(package, exclude=unused)
        self._tags = tags or recognizes
        # The parts of words that the model splits by its own rules, as n't and U.S.: they stay.
        rules = getattr(self._nlp.tokenizer, "rules", None) or {}
        self._whole = frozenset(part[ORTH] for parts in rules.values() for part in parts)
        self._tag_alone = lru_cache(CACHED)(self._tag_of)

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
                taken = [self._read(doc) for doc in (self._nlp.pipe(docs) if self._tags else docs)]
            yield from taken

    def _read(self, doc: Doc) -> Tagged:
        """Read a document; a word of letters that was taken for a sign has its tag out of context.

        So joined words as alice|nairobi, which are split at their signs, are words like any other.
        """
        part = read(doc, self._detectors)
        if self._tags:
            for at, (word, tag) in enumerate(zip(part.words, part.pos, strict=True)):
                if tag == REST and not part.identifiers[at]:
                    part.pos[at] = self._tag_alone(word)
        return part

    def _tag_of(self, word: str) -> str:
        (tag,) = self.words([word])
        return REST if tag in DOUBTFUL else tag

    def words(self, words: Iterable[str]) -> Iterator[str]:
        """The most likely tag of each word out of context: the word is the whole document."""
        for doc in self._nlp.pipe(Doc(self._nlp.vocab, words=[word]) for word in words):
            yield doc[0].pos_

    def _visible(self, text: str) -> Doc:
        """Split a text into words as the model does, and those that are joined by signs there."""
        doc = self._doc(visible(text))
        if not any(map(self._is_joined, doc)):
            return doc
        kinds = marked(doc)
        words, spaces = list[str](), list[bool]()
        for token in doc:
            is_joined = not kinds[token.i] and self._is_joined(token)
            words += _parts(token.text) if is_joined else [token.text]
            spaces += [False] * (len(words) - len(spaces) - 1) + [bool(token.whitespace_)]
        return Doc(self._nlp.vocab, words=words, spaces=spaces)

    def _doc(self, text: str) -> Doc:
        """Split a text at its markup first, which is glued to words (`film.<br />The`)."""
        pieces = list(_pieces(text))
        if pieces in ([], [(text, False)]):
            return self._nlp.make_doc(text)
        words, spaces = list[str](), list[bool]()
        for piece, is_markup in pieces:
            tokens = () if is_markup else self._nlp.make_doc(piece)
            words += [piece] if is_markup else [token.text for token in tokens]
            spaces += [False] if is_markup else [bool(token.whitespace_) for token in tokens]
        return Doc(self._nlp.vocab, words=words, spaces=spaces)

    def _is_joined(self, token: Token) -> bool:
        text = token.text
        return not text.isalnum() and text not in self._whole and len(_parts(text)) > 1

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


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Cut a text at its markup, and say of each piece whether it is markup.

    A long run of signs, as of emoji, is cut too: spaCy's time grows with the square of its length.
    """
    start = 0
    for begin, end in chain(markup(text), [(len(text), len(text))]):
        for run in _RUN.finditer(text, start, begin):
            if not run[0].isalnum():
                yield text[start : run.end()], False
                start = run.end()
        if start < begin:
            yield text[start:begin], False
        if begin < end:
            yield text[begin:end], True
        start = end


@lru_cache(CACHED)
def _parts(word: str) -> list[str]:
    """Cut a word of letters at its signs; apostrophes and an abbreviation's periods stay.

    What has no letters stays whole: numbers, rows of signs, emoticons.
    """
    if not any(map(str.isalpha, word)):
        return [word]
    parts = ["".join(run) for _, run in groupby(word, _is_sign)]
    if all(len(part) == 1 and (part.isalpha() or part == ".") for part in parts):
        return [word]
    return parts


def _is_sign(character: str) -> bool:
    """Whether it is punctuation or a symbol, but no apostrophe."""
    return character not in "'’" and unicodedata.category(character)[0] in "PS"


def read(doc: Doc, detectors: Sequence[Detector] = (FORMS,)) -> Tagged:
    """Take the words of a tagged document out of it, as a reader sees them; they outlive it.

    Every token but white space is a word: one that nobody sees is UNSEEN. The tag of a word with
    letters is never that of a sign: it is REST then.

    Args:
        doc: as spaCy made it.
        detectors: what marks identifiers.
    """
    text, kinds = doc.text, marked(doc, detectors)  # spaCy joins a text anew each time
    kept = [token for token in doc if not token.is_space]
    ends = [token.idx + len(token) for token in kept]
    return Tagged(
        ["".join(visible(token.text).split()) or UNSEEN for token in kept],
        [
            REST if token.pos_ in DOUBTFUL and any(map(str.isalpha, token.text)) else token.pos_
            for token in kept
        ],
        [text[end : end + 1].isspace() for end in ends],
        [kinds[token.i] for token in kept],
    )
