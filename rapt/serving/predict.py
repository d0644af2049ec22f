"""`rapt predict`: privatize texts like the training data, and query the adapted model."""

from __future__ import annotations

import json as json_format
import math
import os
import sys
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rapt import paths
from rapt.options import AllowWeak, Budget, Language, Tagger, parsed_eta
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.serving.protocol import Text
    from rapt.tuning.inference_spec import Contract

# Fields in which a provider's statement of a release must match the user's own.
HELD = ("mechanism", "parameters", "categories", "protect", "eta", "table_sha256")


def predict(
    text: Annotated[
        str,
        typer.Argument(
            help="A text, a file with one a line, or - for stdin. Tabs part the texts of a pair, "
            "or a question and its choices."
        ),
    ],
    adapter: Annotated[
        str, typer.Option(help="A tuned seed's folder, or the address of `rapt serve`.")
    ],
    eta: Annotated[
        float | None,
        typer.Option(
            parser=parsed_eta,
            metavar="FLOAT",
            help="Privacy parameter; else that of the training data.",
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="Embedding table; else the release's, or MiniLM's.")
    ] = None,
    tagger: Tagger = None,
    language: Language = None,
    allow_weak: AllowWeak = False,
    budget: Budget = None,
    release: Annotated[
        Path | None, typer.Option(help="Your own release: refuse a provider that says otherwise.")
    ] = None,
    as_told: Annotated[
        bool, typer.Option("--as-told", help="Without it: privatize as a provider elsewhere says.")
    ] = False,
    combine: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Your tagged rows, data/tagged/TASK: weigh in a model of your own. Needs "
            "--release.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each text.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print what is sent as well.")] = False,
) -> None:
    """Privatize texts as an adapter's training data was, and ask it for their classes or texts."""
    from rapt import defaults
    from rapt.serving.client import is_url, opened
    from rapt.serving.prediction_privatizer import PredictionPrivatizer
    from rapt.serving.protocol import asked, served_kind

    texts = _texts(text)
    provider = opened(adapter)
    contract = provider.contract
    kind = served_kind(contract)
    segments = [_segments(number, one, contract) for number, one in enumerate(texts, start=1)]
    if release is not None:
        _hold(contract, release)
    elif is_url(adapter) and not as_told:
        raise RaptError(
            "release: got none, expected the folder of your own release with a provider "
            "elsewhere. Give --release, or --as-told to privatize as the provider says."
        )
    if private := contract.prediction:
        left = f"{private.left} of {private.queries} queries are left"
        print(f"private prediction: {left}, and each text takes one", file=sys.stderr)
    tagger = tagger or defaults.tagger()
    both = None
    if combine is not None and not kind.has_classes:
        raise RaptError(f"combine: got rows with an adapter of kind {kind.name}, expected none.")
    if combine is not None and contract.prediction:
        raise RaptError(
            "combine: got rows with private prediction, expected none: it tells no probabilities."
        )
    if combine is not None:
        from rapt.serving.combining import Combined

        if release is None:
            raise RaptError(
                "combine: got no --release, expected the folder of the release of these rows."
            )
        folder = table or defaults.table(contract.statement.embedding)
        both = Combined(provider, combine, release, folder, tagger)
    privatize = PredictionPrivatizer(
        contract,
        _eta(contract, eta, elsewhere=is_url(adapter)),
        table,
        tagger,
        language,
        allow_weak,
        budget,
    )
    sent, counts = privatize(segments)
    for line in privatize.said(counts):
        print(line, file=sys.stderr)
    answers: Iterable[Any] = asked(provider, sent)
    if both:
        print(both.said(), file=sys.stderr)
        answers = both(segments, list(answers))
    for sent_text, answer, secret in zip_longest(sent, answers, privatize.maps):
        received = _one_line(answer) if isinstance(answer, str) else answer
        restored = secret.restore(received) if secret else received
        if json:
            content = kind.as_json(restored)
            if show:
                content["sent"] = sent_text.model_dump(mode="json", exclude_none=True)
                content |= {"received": received} if isinstance(received, str) else {}
            typer.echo(json_format.dumps(content, ensure_ascii=False))
            continue
        if show:
            typer.echo(f"sent\t{_as_sent(sent_text)}")
            if isinstance(received, str):
                typer.echo(f"received\t{received}")
        typer.echo(kind.as_line(restored))


def _one_line(text: str) -> str:
    """Return a text as one line of a terminal, whatever the provider sent."""
    from rapt.text.characters import visible

    return " ".join(visible(text).split())


def _texts(given: str) -> list[str]:
    """Return the given texts: a text itself, or the lines of a file."""
    from rapt.data.config import SUFFIXES
    from rapt.data.read import TEXT
    from rapt.release.formats import STREAM, Lines

    texts = [given]
    if given == str(STREAM) or os.path.isfile(given):
        lines = Lines(Path(given))
        texts = [text or "" for chunk in lines.chunks() for text in chunk.texts[TEXT]]
        if not texts:
            raise RaptError(f"{lines.where}: got no lines, expected one or more.")
    elif Path(given).suffix.lower() in SUFFIXES and not any(c.isspace() for c in given):
        raise RaptError(f"{given}: got no such file, expected a file of texts.")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise RaptError("text: got another encoding, expected UTF-8.") from None
    return texts


def _segments(number: int, text: str, contract: Contract) -> list[str]:
    from rapt.serving.protocol import served_kind
    from rapt.text.characters import visible

    count = contract.segments
    segments = text.split("\t") if count > 1 else [text]
    if len(segments) != count:
        raise RaptError(
            f"text {number}: got {len(segments)} segments, expected {count} with a tab between "
            "them, as the adapter was tuned on."
        )
    empty = [place for place, each in enumerate(segments) if not visible(each).strip()]
    what = served_kind(contract).part(empty[0]) if empty else None
    if what:
        raise RaptError(f"text {number}: got no words as its {what}, expected some. Write it out.")
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
    from rapt.utils import files

    path = paths.statement(release)
    if not path.is_file():
        raise RaptError(
            f"release: got {str(release)!r}, expected a release: it holds no statement.json."
        )
    statement = files.read_json(path)
    stated = {name: getattr(contract.statement, name) for name in HELD} | {"kind": contract.kind}
    for field in stated:
        if statement.get(field) != stated[field]:
            raise RaptError(
                f"{field}: got another one in the adapter than in {release}, expected the same. "
                "Name the release that it was tuned on."
            )


def _as_sent(text: Text) -> str:
    from rapt.privacy.released import STAND_IN

    if text.vectors is not None and {*text.words} == {STAND_IN}:
        return f"{len(text.words)} vectors, {len(text.vectors):,} bytes"
    segments = [
        [word for word, segment in zip(text.words, text.segment, strict=True) if segment == number]
        for number in sorted({0, *text.segment})
    ]
    parts = [*([text.plain] if text.plain else []), *segments]
    return " | ".join(" ".join(part) for part in parts)
