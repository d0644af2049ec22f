"""`rapt predict`: privatize texts like the training data, and query the adapted model."""

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
from rapt.privacy.budget import text_loss
from rapt.privacy.categories import VERBATIM
from rapt.privacy.mechanisms import Mechanism, wordwise_mechanism
from rapt.privacy.privatizer import Privatizer, Words
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

# Fields in which a provider's statement of a release must match the user's own.
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
    """Predict the class of texts; see `rapt predict --help` for the options.

    Yields:
        a line for each text, in order: its label and probability.

    Raises:
        RaptError: an option is not allowed, or the provider does not answer.
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
    """Privatizes texts like the release that an adapter was tuned on, with fresh noise."""

    def __init__(
        self, contract: Contract, eta: float, table: Path | None, tagger: str, placeholders: bool
    ) -> None:
        """Open the table.

        Args:
            contract: the adapter's contract.
            eta: the privacy parameter; inf: words stay unchanged, and a table is needed only if
                the model takes vectors.
            table: folder of the embedding table; None: the project's, else MiniLM's.
            tagger: package of the spaCy model.
            placeholders: whether numbers, addresses and handles that get no noise are replaced by
                placeholders, as in `rapt privatize`. The pipeline's releases keep them.

        Raises:
            RaptError: the table is not the release's, or an option is not allowed.
        """
        self.contract, self.eta, self._tagger = contract, eta, tagger
        self._privatizer: TextPrivatizer | None = None
        self._of_vectors: Privatizer | None = None
        self._mechanism: Mechanism | None = None  # None: words get no noise
        self._groups: list[list[int]] = []
        statement = contract.statement
        if eta == math.inf and placeholders:
            raise RaptError("placeholders: got them with eta inf, expected a lower eta.")
        if eta == math.inf and not statement.vectors:
            return
        table = table or defaults.table(statement.embedding)
        if statement.vectors:
            how = wordwise_mechanism(statement.mechanism, **statement.parameters)
            self._of_vectors = Privatizer(
                table=EmbeddingTable(table),
                mechanism=how,
                eta=eta,
                categories=statement.categories,
            )
            self._check(self._of_vectors.table)
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

        Words beyond the model's length limit are not sent, as they would spend privacy for nothing.

        Returns:
            the texts to send, and for each text the counts of its words' fates (rapt.release.text).
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
                    vectors=_bytes(vectors) if self._of_vectors else None,
                )
            )
            kept = (part.fates[:n] for (part, _), n in zip(parts, most, strict=True))
            fates.append(Counter(chain.from_iterable(kept)))
        return sent, fates

    def _most(self, sizes: Sequence[int]) -> list[int]:
        """Bound the words of each segment that the model can read, at one token or more per word.

        A pair shares the tokens equally; a segment that is shorter than its half leaves the rest to
        the other.
        """
        most = self.contract.max_tokens
        if len(sizes) == 1:
            return [most]
        return [most - min(other, most // 2) for other in reversed(sizes)]

    def said(self, fates: Sequence[Counter[str]]) -> Iterator[str]:
        """Yield the messages for the user: which words are protected, and the privacy loss."""
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
        loss = text_loss(self._mechanism, self.eta, most, 1.0)
        bound = f"{self.eta:g} · {most} words = {loss:g}" if math.isfinite(loss) else "no bound"
        yield (
            "each prediction spends privacy, also of a text that was asked about before: eta for "
            f"each word with noise and unit of distance, here at most {bound} for one text"
        )

    def _release(self, texts: list[str]) -> list[tuple[Released, Vectors | None]]:
        """Privatize each text, with its words' vectors if the model takes vectors."""
        if self._privatizer is not None:
            return [(text, None) for text in self._privatizer.release(texts)]
        cut = [pieces(text) for text in texts]
        tagged = Tagger(self._tagger).texts(piece for parts in cut for piece in parts)
        whole = [joined([_as_they_are(next(tagged)) for _ in parts]) for parts in cut]
        return [self._represented(text) if self._of_vectors else (text, None) for text in whole]

    def _represented(self, text: Released) -> tuple[Released, Vectors | None]:
        """Release a text's noisy vectors, and the words nearest to them."""
        assert self._of_vectors
        every = [0] * len(text.originals)
        (made,) = self._of_vectors.release([Words(text.originals, every, fresh)])
        fates = text.fates if self.eta == math.inf else [NOISE] * len(made.words)
        return replace(text, words=made.words, fates=fates), made.vectors

    def _plain_copies(self, count: int) -> Iterator[list[str]]:
        """Draw a sequence of plain words for each text, privatized anew."""
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
    """Return the given texts: a text itself, or the lines of a file."""
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
    """Return the η to use; unprotected words go to a remote provider only if η was given."""
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
    """Check that the provider's statement matches that of the user's own release."""
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
