"""Privatization of raw strings, with noise that nobody can replay."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from rapt.data.nested import EXPECTED, NoText, texts_of, with_texts
from rapt.measures import strength
from rapt.privacy.base import AnyPrivatizer, PreparedText, check_categories
from rapt.privacy.categories import Scheme, expanded
from rapt.privacy.fates import NOISE, PLACEHOLDER, Word
from rapt.privacy.mechanisms import word_mechanism
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import Stream, fresh, stream
from rapt.release.ledger import Account, Ledger, checked
from rapt.release.sentences import Counted, counted
from rapt.table_cache import TAGGER, cached_table
from rapt.text import language
from rapt.text.detectors import FORMS, Names, detector
from rapt.text.table import EmbeddingTable
from rapt.text.tagged import Tagged
from rapt.text.tagging import Tagger, read
from rapt.utils.errors import RaptError, not_allowed, wrong_eta

AGAIN = (
    "The ledger knows some of these texts from earlier releases: losses add up. See: rapt ledger"
)
PIECE = 20_000  # characters, or words, that are tagged and privatized at a time
NUMBERED = "numbered"
NAMES = ("noise", "placeholder", NUMBERED)  # what becomes of names
(NAME,) = Names.kinds

# Cut after white space if there is any, so that only a word longer than a piece is cut.
_PIECES = re.compile(rf"(?s).{{1,{PIECE}}}\Z|.{{0,{PIECE - 1}}}\s|.{{1,{PIECE}}}")


def joined(words: Sequence[Word], keep_spacing: bool) -> str:
    """Join the released words, by single spaces or with the spacing of the original."""
    if not keep_spacing:
        return " ".join(word.released for word in words)
    return "".join(f"{w.released} " if w.space_after else w.released for w in words).rstrip()


@dataclass(kw_only=True)
class TextPrivatizer:
    """Privatizes texts: `TextPrivatizer(table=…, eta=…, categories=…)(["a text", "another"])`.

    Every text draws its noise from a new generator keyed by the operating system, so neither forks
    nor restarts repeat it. It can be pickled: another process then opens table and tagger again.

    Args:
        eta: the privacy parameter, relative to the table: smaller is more private.
        table: folder of an embedding table (docs/data.md); None: MiniLM's, made on first use.
        mechanism: its name; None: pct2t if there are categories, else t2t.
        parameters: parameters of the mechanism, by name; others have the paper's values.
        categories: parts of speech whose words get noise, each within its own. A set of them goes
            by its name: "paper", "content", "all". None: every word.
        tagger: package of the spaCy model that splits texts into words and tags them.
        language: code of the texts' language, or "any": it is not checked; None: the tagger's.
        keep_identifiers: whether numbers, e-mail addresses, URLs and handles get no placeholder
            under a scheme of categories: those that get no noise are released unchanged.
        names: what becomes of words that the tagger or its model marks as names. "noise": what
            becomes of other words; "placeholder": `<name>`. "numbered": `<name-1>`, with one number
            for each distinct word of a text.
        detectors: names of further detectors (`rapt.text.detectors`), whose words become
            placeholders, too.
        keep_spacing: whether the text's spacing between words is kept.
        insecure_seed: seed of the noise, for tests: anyone who knows it can undo the release. The
            ledger counts nothing.
        allow_weak: whether η may be so large that hardly a word is replaced.
        budget: the most that a text may lose over all its releases; None: any. It is in nats, as
            500, or in releases at this mechanism and η, as "3x".

    Attributes:
        privatizer: the mechanism at η over the table.

    Raises:
        RaptError: an option is not allowed, there is no such table, or η protects next to nothing.
    """

    eta: float
    table: str | Path | None = None
    mechanism: str | None = None
    parameters: Mapping[str, float | str] = field(default_factory=dict)
    categories: Iterable[str] | None = None
    tagger: str = TAGGER
    language: str | None = None
    keep_identifiers: bool = False
    names: str = NAMES[0]
    detectors: Sequence[str] = ()
    keep_spacing: bool = False
    insecure_seed: int | None = None
    allow_weak: bool = False
    budget: float | str | None = None

    def __post_init__(self) -> None:
        """Check the options, then open the table; the tagger is loaded with the first text."""
        if not 0 < self.eta < math.inf:
            raise RaptError(f"eta: {wrong_eta(self.eta)}")
        if checked(self.budget) is not None and self.insecure_seed is not None:
            raise RaptError(
                "budget: got one with an insecure seed, expected none: it counts nothing."
            )
        if self.names not in NAMES:
            raise RaptError(not_allowed("names", self.names, NAMES))
        further = [*([] if self.names == NAMES[0] else [Names.name]), *self.detectors]
        self.detectors = tuple(self.detectors)
        named = [detector(name) for name in dict.fromkeys(further)]
        self._hidden = frozenset(kind for one in named for kind in one.kinds)
        self._detectors = [*(one for one in named if one.name != FORMS.name), FORMS]
        self.eta = float(self.eta)
        self.categories = None if self.categories is None else expanded(tuple(self.categories))
        self.mechanism = self.mechanism or ("t2t" if self.categories is None else "pct2t")
        made = word_mechanism(self.mechanism, **self.parameters)
        check_categories(made, self.categories)
        Scheme(self.categories)
        self.table = str(cached_table(tagger=self.tagger) if self.table is None else self.table)
        self.privatizer = Privatizer(
            table=EmbeddingTable(self.table),
            mechanism=made,
            eta=self.eta,
            categories=self.categories,
        )
        if not self.allow_weak:
            strength.check(self.privatizer)

    def __reduce__(self) -> tuple[Callable[..., TextPrivatizer], tuple[str]]:
        return _opened, (json.dumps(asdict(self)),)

    def account(self, release: str | None = None, *, pending: bool = False) -> Account:
        """Make an account for releases by this privatizer."""
        ledger = Ledger() if self.insecure_seed is None else None
        return Account(ledger, checked(self.budget), release, pending)

    @cached_property
    def _tagger(self) -> Tagger:
        # Without categories, all words are one group and tags make no difference to the noise.
        return Tagger(self.tagger, self.needs_tags, self._detectors)

    @property
    def needs_tags(self) -> bool:
        """Whether parts of speech decide what becomes of a word."""
        return self.categories is not None or len(self._detectors) > 1

    def __call__(self, texts: Iterable[Any]) -> list[Any]:
        """Privatize texts one for one; a missing one stays, and one without words is empty.

        A value may also be a list of texts, or a chat: of each message its content is privatized.
        """
        if isinstance(texts, str):
            raise RaptError("texts: got one string, expected a list of strings.")
        values, raw = list(texts), list[str | None]()
        for at, value in enumerate(values):
            try:
                raw += texts_of(value)
            except NoText as problem:
                raise RaptError(
                    f"texts: got {problem} at place {at}, expected {EXPECTED}."
                ) from None
        released = self.release([text or "" for text in raw])
        new = (joined(words, self.keep_spacing) for words in released)
        return [with_texts(value, new) for value in values]

    def mapper(self, columns: Sequence[str] = ("text",)) -> Mapper:
        """Return a function for `datasets.Dataset.map(…, batched=True)` that privatizes columns."""
        return Mapper(self, tuple(columns))

    def release(
        self, texts: Sequence[str], *names: str | int, account: Account | None = None
    ) -> list[list[Word]]:
        """Privatize texts one for one, with the fate of each word.

        Args:
            texts: raw texts; long ones are tagged and privatized in pieces.
            *names: place of these texts in their release, which names their random streams, too,
                if there is an insecure seed.
            account: counts what they lose; None: one of their own, with a warning if the ledger
                knows any of them.

        Raises:
            RaptError: they are in another language than expected, or beyond their budget.
        """
        return self.release_tagged(texts, self.tagged(texts), *names, account=account)

    def tagged(self, texts: Sequence[str]) -> list[list[Tagged]]:
        """Check the language of texts, and split each into tagged words, a long one in pieces."""
        self.check(texts)
        return tagged_pieces(self._tagger, texts)

    def check(self, texts: Sequence[str]) -> None:
        """Check that there is a tagger, and that texts are in the language that is expected.

        Raises:
            RaptError: there is none, or they are in another one.
        """
        assert self._tagger
        if self.language is None:
            language.check_table(self.privatizer.table.language, language.of_tagger(self.tagger))
        language.check(texts, language.of_tagger(self.tagger), self.language)

    def prepared(
        self, part: Tagged, stream: Stream = fresh, noise: Sequence[int] | None = None
    ) -> PreparedText:
        """Decide what becomes of each word of a tagged text; see `Privatizer.text`."""
        return self.privatizer.text(
            part.words,
            part.pos,
            part.identifiers,
            noise,
            stream=stream,
            keep_identifiers=self.keep_identifiers,
            hidden=self._hidden,
        )

    def release_docs(self, docs: Sequence[Doc]) -> list[list[Word]]:
        """Privatize documents that another spaCy pipeline tagged, as `release` does texts."""
        if docs:
            if self.language is None:
                language.check_table(self.privatizer.table.language, docs[0].lang_)
            language.check([doc.text for doc in docs], docs[0].lang_, self.language)
        texts = [list(_split(read(doc, self._detectors))) for doc in docs]
        return self.release_tagged([doc.text for doc in docs], texts)

    def release_tagged(
        self,
        raw: Sequence[str],
        texts: Sequence[Sequence[Tagged]],
        *names: str | int,
        account: Account | None = None,
        shared: Callable[[Tagged], Sequence[int]] | None = None,
    ) -> list[list[Word]]:
        """Privatize tagged texts, as `release` does raw ones.

        Args:
            raw: the texts, for the ledger.
            texts: the pieces of each.
            *names: as in `release`.
            account: as in `release`.
            shared: says of a piece which words share their noise: `Privatizer.text`.
        """
        prepared = [
            [
                self.prepared(
                    part, self._stream(*names, number, place), shared(part) if shared else None
                )
                for place, part in enumerate(parts)
            ]
            for number, parts in enumerate(texts)
        ]
        privatized = self.privatizer.privatize(chain.from_iterable(prepared))
        released = [
            [
                word
                for pair in zip(*text, strict=True)
                for word in _words(*pair, next(privatized), self.privatizer.is_name)
            ]
            for text in zip(texts, prepared, strict=True)
        ]
        if self.names == NUMBERED:
            released = [list(_numbered(words)) for words in released]
        own = account or self.account()
        own.spend(
            accounts(released, self.privatizer),
            self.privatizer.max_loss,
            "/".join(map(str, names)),
        )
        if account is None and own.spent.again:
            warnings.warn(AGAIN, stacklevel=3)
        return released

    def _stream(self, *names: str | int) -> Stream:
        if self.insecure_seed is None:
            return fresh
        return partial(stream, self.insecure_seed, "privatize", *names)


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
            rows = batch[column]
            if isinstance(rows, str) or (len(rows) and all(isinstance(row, dict) for row in rows)):
                raise RaptError("map: got single rows, expected batches. Give batched=True.")
        return dict(batch) | {column: self.privatizer(batch[column]) for column in self.columns}


def accounts(
    released: Iterable[Sequence[Word]], privatizer: AnyPrivatizer[Any]
) -> Iterator[Counted]:
    """Yield what the ledger counts of each text in which a word got noise."""
    for words in released:
        noisy = ((word.original, word.fate == NOISE) for word in words)
        if text := counted(noisy, privatizer.table.form):
            yield text


def _words(
    part: Tagged, prepared: PreparedText, released: list[str], is_name: Callable[[str, str], bool]
) -> Iterator[Word]:
    rows = zip(*part, released, prepared.fates, prepared.groups, strict=True)
    for word, tag, space_after, _, new, fate, group in rows:
        yield Word(word, new, fate, space_after, is_name(word, tag), group)


def _numbered(words: Iterable[Word]) -> Iterator[Word]:
    """Number the names of a text in the order in which they first occur."""
    numbers: dict[str, int] = {}
    for word in words:
        if word.fate == PLACEHOLDER + NAME:
            number = numbers.setdefault(word.original.casefold(), len(numbers) + 1)
            word = word._replace(released=f"<{NAME}-{number}>")
        yield word


def _split(part: Tagged) -> Iterator[Tagged]:
    for start in range(0, len(part.words), PIECE):
        cut = slice(start, start + PIECE)
        yield part.part(cut)


def tagged_pieces(tagger: Tagger, texts: Sequence[str]) -> list[list[Tagged]]:
    """Tag each text, a long one in pieces that a tagger takes."""
    cut = [_PIECES.findall(text) for text in texts]
    tagged = tagger.texts(chain.from_iterable(cut))
    return [[next(tagged) for _ in pieces] for pieces in cut]


@lru_cache(maxsize=4)
def _opened(options: str) -> TextPrivatizer:
    """Return the privatizer of these options, cached in each process that unpickles it."""
    return TextPrivatizer(**json.loads(options))
