"""`rapt predict`: privatize texts like the training data, and query the adapted model."""

from __future__ import annotations

import json
import math
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rapt import defaults
from rapt.privacy.budget import text_loss
from rapt.privacy.categories import VERBATIM
from rapt.privacy.mechanisms import wordwise_mechanism
from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.statement import KINDS
from rapt.privacy.streams import fresh
from rapt.release.formats import STREAM, SUFFIXES, TEXT, Lines
from rapt.release.statement import Counts
from rapt.release.text import (
    NOISE,
    PLACEHOLDER,
    VERBATIM_KIND,
    TextPrivatizer,
    Word,
    as_it_is,
    tagged_pieces,
)
from rapt.serving.client import is_url, opened
from rapt.serving.protocol import TEXTS, Text
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagged, Tagger
from rapt.tuning.inference_spec import Contract
from rapt.utils import files
from rapt.utils.errors import RaptError

Vectors = NDArray[np.float32]
NO_VECTORS: Vectors = np.empty((0, 0), np.float32)

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
    sent, counts = privatize(segments)
    for line in privatize.said(counts):
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
        self._check(self._privatizer.privatizer.table)
        self._plain = _groups_of_plain(self._privatizer.privatizer, contract.plain)

    def _check(self, table: EmbeddingTable) -> None:
        statement = self.contract.statement
        if table.sha256 != statement.table_sha256:
            raise RaptError(
                f"table: got {str(table.folder)!r} with sha256 {table.sha256}, expected "
                f"{statement.embedding} with {statement.table_sha256}, as in the adapter's tuning."
            )

    def __call__(self, texts: Sequence[Sequence[str]]) -> tuple[list[Text], Counts]:
        """Privatize [k; x] for each text x, of one segment or two.

        Words beyond the model's length limit are not sent, as they would spend privacy for nothing.

        Returns:
            the texts to send, and the counts of their words.
        """
        released = iter(self._release([segment for text in texts for segment in text]))
        sent, counts = [], Counts()
        for text, plain in zip(texts, self._plain_copies(len(texts)), strict=True):
            parts = [next(released) for _ in text]
            most = self._most([len(words) for words, _ in parts])
            words = [words[:n] for (words, _), n in zip(parts, most, strict=True)]
            vectors = [vectors[:n].tobytes() for (_, vectors), n in zip(parts, most, strict=True)]
            sent.append(
                Text(
                    words=[word.released for part in words for word in part],
                    segment=[(0, 1)[number] for number, part in enumerate(words) for _ in part],
                    plain=plain,
                    vectors=b"".join(vectors) if self._of_vectors else None,
                )
            )
            counts.add(words)
        return sent, counts

    def _most(self, sizes: Sequence[int]) -> list[int]:
        """Bound the words of each segment that the model can read, at one token or more per word.

        A pair shares the tokens equally; a segment that is shorter than its half leaves the rest to
        the other.
        """
        most = self.contract.max_tokens
        if len(sizes) == 1:
            return [most]
        return [most - min(other, most // 2) for other in reversed(sizes)]

    def said(self, counts: Counts) -> Iterator[str]:
        """Yield the messages for the user: which words are protected, and the privacy loss."""
        if self.eta == math.inf:
            yield "unprotected: eta is inf, every word goes to the model as it is"
            return
        statement, most = self.contract.statement, counts.most
        scope = ", ".join(statement.categories or ["every word"])
        kinds = counts.kinds(VERBATIM_KIND).items()
        verbatim = ", ".join(f"{count} {KINDS[name]}" for name, count in kinds if count)
        yield (
            f"{statement.mechanism} at eta {self.eta:g} ({scope}): of {counts.words} words "
            f"{counts.fates[NOISE]} get noise, {sum(counts.kinds(PLACEHOLDER).values())} become "
            f"placeholders; as they are: {verbatim or 'none'}"
        )
        mechanism = wordwise_mechanism(statement.mechanism, **statement.parameters)
        loss = text_loss(mechanism, self.eta, most, 1.0)
        bound = f"{self.eta:g} · {most} words = {loss:g}" if math.isfinite(loss) else "no bound"
        yield (
            "each prediction spends privacy, also of a text that was asked about before. The "
            "privacy loss is at most eta for each word with noise and each unit of distance, here "
            f"at most {bound} for one text"
        )

    def _release(self, texts: Sequence[str]) -> list[tuple[list[Word], Vectors]]:
        """Privatize each text, with its words' vectors (n, d), of which most models take none."""
        if self._privatizer:
            return [(words, NO_VECTORS) for words in self._privatizer.release(texts)]
        tagged = tagged_pieces(Tagger(self._tagger), texts)
        whole = [[word for piece in pieces for word in _as_they_are(piece)] for pieces in tagged]
        if self._of_vectors is None:
            return [(words, NO_VECTORS) for words in whole]
        return [_represented(self._of_vectors, words) for words in whole]

    def _plain_copies(self, count: int) -> Iterator[list[str]]:
        """Draw a sequence of plain words for each text, privatized anew."""
        plain = self.contract.plain
        if not plain:
            return repeat([], count)
        chosen = [secrets.randbelow(len(plain)) for _ in range(count)]
        if self._privatizer is None:
            return (plain[number] for number in chosen)
        return self._privatizer.privatizer.privatize(
            Words(plain[number], self._plain[number], fresh) for number in chosen
        )


def _groups_of_plain(privatizer: Privatizer, plain: Sequence[Sequence[str]]) -> list[list[int]]:
    """The group of each plain word, that of its row in the table."""
    rows = {word: row for row, word in enumerate(privatizer.table.words)}
    of_rows = [*privatizer.groups_of_rows(np.arange(len(rows))), VERBATIM]
    groups = [[of_rows[rows.get(word, -1)] for word in sequence] for sequence in plain]
    if VERBATIM in chain.from_iterable(groups):
        raise RaptError(
            "adapter: got a plain word that its mechanism cannot release, expected words of its "
            "table. Ask its provider for another one."
        )
    return groups


def _represented(privatizer: Privatizer, words: list[Word]) -> tuple[list[Word], Vectors]:
    """Release the noisy vectors of a text's words, and the words nearest to them."""
    originals = [word.original for word in words]
    (made,) = privatizer.release([Words(originals, [0] * len(words), fresh)])
    assert made.vectors is not None
    if privatizer.eta < math.inf:
        words = [
            word._replace(released=new, fate=NOISE)
            for word, new in zip(words, made.words, strict=True)
        ]
    return words, made.vectors.astype("<f4")


def _as_they_are(part: Tagged) -> list[Word]:
    rows = zip(part.words, part.identifiers, part.space_after, strict=True)
    return [as_it_is(*row) for row in rows]


def _texts(given: str) -> list[str]:
    """Return the given texts: a text itself, or the lines of a file."""
    texts = [given]
    if given == str(STREAM) or os.path.isfile(given):
        lines = Lines(Path(given), (TEXT,))
        texts = [text or "" for chunk in lines.chunks() for text in chunk.texts[TEXT]]
        if not texts:
            raise RaptError(f"{lines.where}: got no lines, expected one or more.")
    elif Path(given).suffix in SUFFIXES and not any(c.isspace() for c in given):
        raise RaptError(f"{given}: got no such file, expected a file of texts.")
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
        raise RaptError(
            "adapter: got an eta that is not a number, expected one. Ask its provider for another."
        ) from None
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
            raise RaptError(
                f"{field}: got another one in the adapter than in {release}, expected the same. "
                "Name the release that it was tuned on."
            )


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
