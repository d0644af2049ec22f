"""`rapt predict`: privatize as the training data was, and ask the adapted model about that."""

from __future__ import annotations

import json
import math
import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rapt import defaults
from rapt.privacy.budget import Budget
from rapt.privacy.categories import VERBATIM
from rapt.privacy.mechanisms import Mechanism, TokenRepresentation, wordwise_mechanism
from rapt.privacy.privatizer import Words, check_categories
from rapt.privacy.representer import Representer
from rapt.privacy.statement import KINDS, kind
from rapt.privacy.streams import fresh
from rapt.release.formats import STREAM, SUFFIXES, TEXT, Input, Lines
from rapt.release.text import (
    NOISE,
    PLACEHOLDER,
    VERBATIM_KIND,
    Released,
    TextPrivatizer,
    joined,
    pieces,
)
from rapt.serving.client import is_url, opened
from rapt.serving.protocol import TEXTS, Text
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagged, Tagger
from rapt.tuning.inference_spec import Contract
from rapt.utils import files
from rapt.utils.errors import RaptError

Vectors = NDArray[np.float32]

# What a provider says of a release, and the user's own statement of it must say too.
HELD = ("mechanism", "parameters", "categories", "eta", "table_sha256")


def predict(
    given: str,
    adapter: str,
    *,
    eta: float | None,
    pair: bool,
    placeholders: bool,
    table: Path | None,
    tagger: str | None,
    release: Path | None,
    as_told: bool,
    as_json: bool,
    show: bool,
) -> Iterator[str]:
    """Predict the class of texts; see `rapt predict --help` for what each means.

    Yields:
        a line for each text, in order: its label and probability.

    Raises:
        RaptError: something given is not allowed, or the provider does not answer.
    """
    texts = _texts(given)
    provider = opened(adapter)
    contract = provider.contract
    if pair != contract.pair:
        got, expected, step = "pairs", "single texts", "Leave out"
        if contract.pair:
            got, expected, step = "single texts", "pairs", "Add"
        raise RaptError(
            f"pair: got {got}, expected {expected}, as the adapter was tuned on. {step} --pair."
        )
    segments = [_segments(number, text, pair) for number, text in enumerate(texts, start=1)]
    if release is not None:
        _hold(contract, release)
    elif is_url(adapter) and not as_told:
        raise RaptError(
            "release: got none, expected the folder of your own release with a provider "
            "elsewhere. Give --release, or --as-told to privatize as the provider says."
        )
    privatize = Repeater(
        contract,
        _eta(contract, eta, elsewhere=is_url(adapter)),
        table,
        tagger or defaults.tagger(),
        placeholders,
    )
    sent, fates = privatize(segments)
    for line in privatize.said(fates):
        print(line, file=sys.stderr)
    size = 1 if contract.statement.vectors else TEXTS  # vectors of one text fill a body
    for start in range(0, len(sent), size):
        some = sent[start : start + size]
        for text, row in zip(some, provider.probabilities(some), strict=True):
            chances = dict(zip(contract.labels, row, strict=True))
            yield _as_json(text, chances, show) if as_json else _as_lines(text, chances, show)


class Repeater:
    """Privatizes texts as the release was that an adapter was tuned on, with noise of their own."""

    def __init__(
        self, contract: Contract, eta: float, table: Path | None, tagger: str, placeholders: bool
    ) -> None:
        """Open the table.

        Args:
            contract: of the adapter.
            eta: the privacy parameter; inf: words stay as they are, and no table is needed, but
                for their vectors where the model takes these.
            table: folder of the embedding table; None: the project's, else MiniLM's.
            tagger: package of the spaCy model.
            placeholders: for numbers, addresses and handles that get no noise, as `rapt privatize`
                has them. The pipeline's releases, which adapters are tuned on, keep them.

        Raises:
            RaptError: the table is another than the release's, or an option is not allowed.
        """
        self.contract, self.eta, self._tagger = contract, eta, tagger
        self._privatizer: TextPrivatizer | None = None
        self._representer: Representer | None = None
        self._mechanism: Mechanism | None = None  # what gives words noise
        self._groups: list[list[int]] = []
        statement = contract.statement
        if eta == math.inf and placeholders:
            raise RaptError("placeholders: got them with eta inf, expected a lower eta.")
        if eta == math.inf and not statement.vectors:
            return
        table = table or defaults.table(statement.embedding)
        if statement.vectors:
            how = wordwise_mechanism(statement.mechanism, **statement.parameters)
            assert isinstance(how, TokenRepresentation)
            check_categories(how, statement.categories)
            self._representer = Representer(table=EmbeddingTable(table), mechanism=how, eta=eta)
            self._check(self._representer.table)
            self._mechanism = None if eta == math.inf else how
            return
        self._privatizer = TextPrivatizer(
            table=table,
            eta=eta,
            mechanism=statement.mechanism,
            parameters=statement.parameters,
            categories=statement.categories,
            tagger=tagger,
            keep_identifiers=not placeholders,
        )
        self._mechanism = self._privatizer.privatizer.mechanism
        self._check(self._privatizer.privatizer.table)
        self._groups = self._groups_of_plain()

    def _check(self, table: EmbeddingTable) -> None:
        statement = self.contract.statement
        if table.sha256 != statement.table_sha256:
            raise RaptError(
                f"table: {str(table.folder)!r} has sha256 {table.sha256}, the adapter was tuned on "
                f"words of {statement.embedding} with {statement.table_sha256}"
            )

    def __call__(self, texts: Sequence[Sequence[str]]) -> tuple[list[Text], list[Counter[str]]]:
        """Privatize [k; x] for each text x, of one segment or two.

        Words beyond those that the model can see are not sent: they would spend privacy for
        nothing.

        Returns:
            what may be sent; and for each text what became of its words (rapt.release.text).
        """
        released = iter(self._release([segment for text in texts for segment in text]))
        sent, fates = [], []
        for text, plain in zip(texts, self._plain_copies(len(texts)), strict=True):
            parts = [next(released) for _ in text]
            most = self._most([len(part.words) for part, _ in parts])
            words = [part.words[:n] for (part, _), n in zip(parts, most, strict=True)]
            vectors = [v[:n] for (_, v), n in zip(parts, most, strict=True) if v is not None]
            sent.append(
                Text(
                    words=[word for some in words for word in some],
                    segment=[(0, 1)[number] for number, some in enumerate(words) for _ in some],
                    plain=plain,
                    vectors=_bytes(vectors) if self._representer else None,
                )
            )
            kept = (part.fates[:n] for (part, _), n in zip(parts, most, strict=True))
            fates.append(Counter(chain.from_iterable(kept)))
        return sent, fates

    def _most(self, sizes: Sequence[int]) -> list[int]:
        """How many words of each segment the model can see, where each is a token at least.

        The halves of a pair share the tokens; what the one does not fill of its half is the
        other's.
        """
        most = self.contract.max_tokens
        if len(sizes) == 1:
            return [most]
        return [most - min(other, most // 2) for other in reversed(sizes)]

    def said(self, fates: Sequence[Counter[str]]) -> Iterator[str]:
        """What the user is told: what is protected, and what it spends."""
        if self._mechanism is None:
            yield "unprotected: eta is inf, every word goes to the model as it is"
            return
        statement, total = self.contract.statement, sum(fates, Counter())
        scope = ", ".join(statement.categories or ["every word"])
        kinds = ((name, total[VERBATIM_KIND + key]) for key, name in KINDS.items())
        verbatim = ", ".join(f"{count} {name}" for name, count in kinds if count)
        hidden = sum(count for fate, count in total.items() if fate.startswith(PLACEHOLDER))
        yield (
            f"{statement.mechanism} at eta {self.eta:g} ({scope}): of {total.total()} words "
            f"{total[NOISE]} get noise, {hidden} become placeholders; as they are: "
            f"{verbatim or 'none'}"
        )
        most = max(count[NOISE] for count in fates)
        loss = Budget(self._mechanism, self.eta, most).loss(1.0)
        bound = f"{self.eta:g} · {most} words = {loss:g}" if math.isfinite(loss) else "no bound"
        yield (
            "each prediction spends privacy, also of a text that was asked about before: eta for "
            f"each word with noise and unit of distance, here at most {bound} for one text"
        )

    def _release(self, texts: list[str]) -> list[tuple[Released, Vectors | None]]:
        """What becomes of each text, and the vectors of its words where the model takes these."""
        if self._privatizer is not None:
            return [(text, None) for text in self._privatizer.release(texts)]
        cut = [pieces(text) for text in texts]
        tagged = Tagger(self._tagger).texts(piece for parts in cut for piece in parts)
        whole = [joined([_as_they_are(next(tagged)) for _ in parts]) for parts in cut]
        return [self._represented(text) if self._representer else (text, None) for text in whole]

    def _represented(self, text: Released) -> tuple[Released, Vectors]:
        """A text's vectors by one draw of noise, and the words nearest to them."""
        assert self._representer
        every = [0] * len(text.originals)
        (exact,) = self._representer.release([Words(text.originals, every, fresh)])
        vectors = exact.astype(np.float32)
        if self.eta == math.inf:
            return text, vectors
        nearest = self._representer.nearest(vectors)
        return replace(text, words=nearest, fates=[NOISE] * len(nearest)), vectors

    def _plain_copies(self, count: int) -> Iterator[list[str]]:
        """A sequence of plain words for each text, any of them, privatized anew."""
        if not self.contract.plain:
            return repeat([], count)
        chosen = [secrets.randbelow(len(self.contract.plain)) for _ in range(count)]
        if self._privatizer is None:
            return (self.contract.plain[number] for number in chosen)
        return self._privatizer.privatizer.privatize(
            Words(self.contract.plain[number], self._groups[number], fresh) for number in chosen
        )

    def _groups_of_plain(self) -> list[list[int]]:
        assert self._privatizer
        privatizer = self._privatizer.privatizer
        rows = {word: row for row, word in enumerate(privatizer.table.words)}
        of_rows = [*privatizer.groups_of_rows(np.arange(len(rows))), VERBATIM]
        groups = [[of_rows[rows.get(word, -1)] for word in plain] for plain in self.contract.plain]
        if VERBATIM in chain.from_iterable(groups):
            raise RaptError("adapter: a plain word of it is none that its mechanism releases")
        return groups


def _bytes(vectors: Sequence[Vectors]) -> bytes:
    return b"".join(part.astype("<f4").tobytes() for part in vectors)


def _as_they_are(part: Tagged) -> Released:
    fates = [
        VERBATIM_KIND + kind(word, identifier)
        for word, identifier in zip(part.words, part.identifiers, strict=True)
    ]
    return Released(part.words, part.words, fates, part.space_after)


def _texts(given: str) -> list[str]:
    """What was given: a text itself, or a file of them, one a line."""
    texts = [given]
    if given == str(STREAM) or os.path.isfile(given):
        lines = Lines(Input(Path(given)), (TEXT,), False)
        texts = [text or "" for chunk in lines.chunks() for text in chunk.texts[TEXT]]
        if not texts:
            raise RaptError(f"{lines.input.where}: holds no lines")
    elif Path(given).suffix in SUFFIXES and not any(c.isspace() for c in given):
        raise RaptError(f"{given}: no such file")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise RaptError("text: got another encoding, expected UTF-8.") from None
    return texts


def _segments(number: int, text: str, pair: bool) -> list[str]:
    segments = text.split("\t") if pair else [text]
    if pair and len(segments) != 2:
        raise RaptError(
            f"text {number}: got {len(segments)} segments, expected 2 with a tab between them."
        )
    return segments


def _eta(contract: Contract, given: float | None, *, elsewhere: bool) -> float:
    """The η to use: a provider elsewhere cannot have words sent to it as they are."""
    try:
        tuned = float(contract.statement.eta)
    except ValueError:
        raise RaptError("adapter: its eta is no number") from None
    if given is not None:
        if given != tuned:
            print(f"eta {given:g} given, the adapter was tuned at {tuned:g}", file=sys.stderr)
        return given
    if elsewhere and not math.isfinite(tuned):
        raise RaptError(
            "eta: got none, expected one, as the adapter was tuned on unprotected words. "
            "--eta NUMBER protects yours, --eta inf sends them as they are."
        )
    return tuned


def _hold(contract: Contract, release: Path) -> None:
    """Check that a provider asks for what the user's own release was."""
    path = release / "statement.json"
    if not path.is_file():
        raise RaptError(
            f"release: got {str(release)!r}, expected a release: it holds no statement.json."
        )
    own = files.read_json(path)
    for field in HELD:
        if own.get(field) != getattr(contract.statement, field):
            raise RaptError(f"{field}: the adapter's is another than that of {release}")


def _as_json(text: Text, chances: dict[str, float], show: bool) -> str:
    label = max(chances, key=chances.__getitem__)
    line = {"label": label, "probability": chances[label], "probabilities": chances}
    return json.dumps(
        line | ({"sent": text.model_dump(mode="json", exclude_none=True)} if show else {}),
        ensure_ascii=False,
    )


def _as_lines(text: Text, chances: dict[str, float], show: bool) -> str:
    label = max(chances, key=chances.__getitem__)
    line = f"{label}\t{chances[label]:.3f}"
    if not show:
        return line
    segments = [
        [word for word, segment in zip(text.words, text.segment, strict=True) if segment == number]
        for number in sorted({0, *text.segment})
    ]
    parts = [*([text.plain] if text.plain else []), *segments]
    return "sent\t" + " | ".join(" ".join(part) for part in parts) + "\n" + line
