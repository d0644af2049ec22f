"""Privatization of raw strings, with noise that nobody can replay."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from spacy.tokens import Doc

from rapt.privacy.categories import VERBATIM, Scheme
from rapt.privacy.mechanisms import WordMechanism, word_mechanism
from rapt.privacy.privatizer import Privatizer, Words, check_categories
from rapt.privacy.statement import kind
from rapt.privacy.streams import fresh, stream
from rapt.table_cache import TAGGER, cached_table
from rapt.text import identifiers
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagged, Tagger, read
from rapt.utils.errors import RaptError, not_allowed, wrong_eta

PIECE = 20_000  # characters, or words, that are tagged and privatized at a time
# A word's fate: noise, or one of the others followed by its kind (rapt.privacy.statement).
NOISE, PLACEHOLDER, VERBATIM_KIND = "noise", "placeholder ", "verbatim "

# Cut after white space if there is any, so that only a word longer than a piece is cut.
_PIECES = re.compile(rf"(?s).{{1,{PIECE}}}\Z|.{{0,{PIECE - 1}}}\s|.{{1,{PIECE}}}")
# Control characters and unpaired surrogates, which separate words.
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Options:
    """The options of a TextPrivatizer; see its constructor."""

    table: str
    eta: float
    mechanism: str
    parameters: tuple[tuple[str, float], ...]
    categories: tuple[str, ...] | None
    tagger: str
    keep_identifiers: bool
    keep_spacing: bool
    insecure_seed: int | None

    def check(self) -> None:
        """Check the options that can be checked without the table.

        Raises:
            RaptError: η is not a finite number above 0, there is no such mechanism, or it does not
                support these categories.
        """
        if not 0 < self.eta < math.inf:
            raise RaptError(f"eta: {wrong_eta(self.eta)}")
        check_categories(self.made(), self.categories)
        Scheme(self.categories)

    def made(self) -> WordMechanism:
        """Build the mechanism with its parameters."""
        return word_mechanism(self.mechanism, **dict(self.parameters))


@dataclass(frozen=True)
class Released:
    """A text before and after privatization, word by word.

    Attributes:
        originals: the original words.
        words: the released words.
        fates: each word's fate: NOISE, or PLACEHOLDER or VERBATIM_KIND followed by its kind.
        space_after: whether white space follows each word.
    """

    originals: list[str]
    words: list[str]
    fates: list[str]
    space_after: list[bool]

    def text(self, keep_spacing: bool) -> str:
        """Join the released words, by single spaces or with the spacing of the original."""
        if not keep_spacing:
            return " ".join(self.words)
        pairs = zip(self.words, self.space_after, strict=True)
        return "".join(f"{word} " if space else word for word, space in pairs).rstrip()


class TextPrivatizer:
    """Privatizes texts: `TextPrivatizer(table=…, eta=…, categories=…)(["a text", "another"])`.

    Every text draws its noise from a new generator keyed by the operating system, so neither forks
    nor restarts repeat it. It can be pickled: another process then opens table and tagger again.

    Attributes:
        options: the options it was made with.
        privatizer: the mechanism at η over the table.
    """

    def __init__(
        self,
        *,
        eta: float,
        table: str | Path | None = None,
        mechanism: str | None = None,
        parameters: Mapping[str, float] | None = None,
        categories: Iterable[str] | None = None,
        tagger: str = TAGGER,
        keep_identifiers: bool = False,
        keep_spacing: bool = False,
        insecure_seed: int | None = None,
    ) -> None:
        """Open the table; the tagger is loaded with the first text.

        Args:
            eta: the privacy parameter, relative to the table: smaller is more private.
            table: folder of an embedding table (docs/data.md); None: MiniLM's, made on first use.
            mechanism: its name; None: pct2t if there are categories, else t2t.
            parameters: parameters of the mechanism, by name; others have the paper's values.
            categories: parts of speech whose words get noise, each within its own.
            tagger: package of the spaCy model that splits texts into words and tags them.
            keep_identifiers: whether numbers, e-mail addresses, URLs and handles that get no noise
                are released unchanged, instead of as `<number>` and so on.
            keep_spacing: whether the text's spacing between words is kept.
            insecure_seed: seed of the noise, for tests: anyone who knows it can undo the release.

        Raises:
            RaptError: an option is not allowed, or there is no such table.
        """
        chosen = None if categories is None else tuple(categories)
        name = mechanism or ("t2t" if chosen is None else "pct2t")
        table = cached_table(tagger=tagger) if table is None else table
        self.options = Options(
            table=str(table),
            eta=float(eta),
            mechanism=name,
            parameters=tuple(sorted((parameters or {}).items())),
            categories=chosen,
            tagger=tagger,
            keep_identifiers=keep_identifiers,
            keep_spacing=keep_spacing,
            insecure_seed=insecure_seed,
        )
        self.options.check()
        self.privatizer = Privatizer(
            table=EmbeddingTable(table),
            mechanism=self.options.made(),
            eta=eta,
            categories=chosen,
        )

    def __reduce__(self) -> tuple[Callable[..., TextPrivatizer], tuple[Options]]:
        return _opened, (self.options,)

    @cached_property
    def _tagger(self) -> Tagger:
        # Without categories, all words are one group and tags make no difference.
        return Tagger(self.options.tagger, tags=self.options.categories is not None)

    def __call__(self, texts: Iterable[str | None]) -> list[str | None]:
        """Privatize texts one for one; null stays null, and a text without words is empty."""
        if isinstance(texts, str):
            raise RaptError("texts: got one string, expected a list of strings.")
        texts = list(texts)
        released = self.release([text or "" for text in texts])
        return [
            None if text is None else after.text(self.options.keep_spacing)
            for text, after in zip(texts, released, strict=True)
        ]

    def mapper(self, columns: Sequence[str] = ("text",)) -> Mapper:
        """Return a function for `datasets.Dataset.map(…, batched=True)` that privatizes columns."""
        return Mapper(self, tuple(columns))

    def release(self, texts: Sequence[str], *names: str | int) -> list[Released]:
        """Privatize texts one for one, with the fate of each word.

        Args:
            texts: raw texts; long ones are tagged and privatized in pieces.
            *names: names of these texts' random streams, if there is an insecure seed.
        """
        cut = [pieces(text) for text in texts]
        parts = self._tagger.texts(piece for pieces in cut for piece in pieces)
        return self._release([[next(parts) for _ in pieces] for pieces in cut], *names)

    def release_docs(self, docs: Sequence[Doc]) -> list[Released]:
        """Privatize documents that another spaCy pipeline tagged, as `release` does texts."""
        return self._release([list(_split(read(doc))) for doc in docs])

    def _release(self, texts: Sequence[Sequence[Tagged]], *names: str | int) -> list[Released]:
        streams = (
            (part, self._stream(*names, number, place))
            for number, parts in enumerate(texts)
            for place, part in enumerate(parts)
        )
        privatized = self.privatizer.privatize(
            Words(part.words, self.privatizer.groups_of_text(part.pos), stream)
            for part, stream in streams
        )
        return [joined([self._released(part, next(privatized)) for part in text]) for text in texts]

    def _stream(self, *names: str | int) -> Callable[[], np.random.Generator]:
        if self.options.insecure_seed is None:
            return fresh
        return partial(stream, self.options.insecure_seed, "privatize", *names)

    def _released(self, part: Tagged, noisy: list[str]) -> Released:
        groups = self.privatizer.groups_of_text(part.pos)
        rows = zip(part.words, groups, part.identifiers, strict=True)
        fates = [self._fate(word, group, identifier) for word, group, identifier in rows]
        words = [
            identifiers.placeholder(fate.removeprefix(PLACEHOLDER))
            if fate.startswith(PLACEHOLDER)
            else word
            for word, fate in zip(noisy, fates, strict=True)
        ]
        return Released(part.words, words, fates, part.space_after)

    def _fate(self, word: str, group: int, identifier: str | None) -> str:
        if group != VERBATIM:
            return NOISE
        if identifier and not self.options.keep_identifiers:
            return PLACEHOLDER + identifier
        return VERBATIM_KIND + kind(word, identifier)


@dataclass(frozen=True)
class Mapper:
    """Privatizes columns of a batch, `{column: values}`, and keeps every other column."""

    privatizer: TextPrivatizer
    columns: tuple[str, ...]

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch with these columns privatized."""
        for column in self.columns:
            if column not in batch:
                raise RaptError(not_allowed("columns", column, batch))
            if isinstance(batch[column], str):
                raise RaptError("map: got single rows, expected batches. Give batched=True.")
        return dict(batch) | {column: self.privatizer(batch[column]) for column in self.columns}


def _split(part: Tagged) -> Iterator[Tagged]:
    for start in range(0, len(part.words), PIECE):
        cut = slice(start, start + PIECE)
        yield part.part(cut)


def pieces(text: str) -> list[str]:
    """Split a text into parts that a tagger takes, without control characters."""
    return _PIECES.findall(_NO_TEXT.sub(" ", text))


def joined(parts: Sequence[Released]) -> Released:
    """Join the parts of a text."""
    return Released(
        list(chain.from_iterable(part.originals for part in parts)),
        list(chain.from_iterable(part.words for part in parts)),
        list(chain.from_iterable(part.fates for part in parts)),
        list(chain.from_iterable(part.space_after for part in parts)),
    )


@lru_cache(maxsize=4)
def _opened(options: Options) -> TextPrivatizer:
    """Return the privatizer of these options, cached in each process that unpickles it."""
    return TextPrivatizer(**asdict(options) | {"parameters": dict(options.parameters)})
