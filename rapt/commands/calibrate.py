"""`rapt calibrate`: the η that gives a wanted protection, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rapt.options import (
    FORMATS,
    Categories,
    Delimiter,
    Encoding,
    Header,
    Language,
    Mechanism,
    Table,
    Tagger,
)
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.measures.replacement import Counted, TextCurve
    from rapt.privacy.channel import Share
    from rapt.privacy.privatizer import Privatizer

SEED = 0  # equal calls give equal lines
AT_ONCE = 1000  # texts read and tagged at a time
PRIVATE = (
    "These figures are of your text, and reveal a little of it: which share of its words are rare. "
    "Keep them to yourself. Publish an eta that rapt calibrate finds without --text."
)


def calibrate(
    replaced: Annotated[
        float | None, typer.Option(help="Share of the protected words to replace, in the mean.")
    ] = None,
    recovered: Annotated[
        float | None,
        typer.Option(help="Most of the protected words that an attacker recovers; a minute."),
    ] = None,
    text: Annotated[
        Path | None, typer.Option(help="Your own texts, read here alone; else public ones.")
    ] = None,
    column: Annotated[list[str] | None, typer.Option(help="Text column, repeatable.")] = None,
    format: Annotated[str | None, typer.Option(help=f"{FORMATS}; else by the suffix.")] = None,
    header: Header = True,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    table: Table = None,
    categories: Categories = None,
    mechanism: Mechanism = None,
    tagger: Tagger = None,
    language: Language = None,
    words: Annotated[int, typer.Option(help="Words to draw.", min=2)] = 1200,
    draws: Annotated[int, typer.Option(help="Noisy draws of each.", min=1)] = 50,
) -> None:
    """Find the largest eta that replaces words as often as you want."""
    from rapt import defaults
    from rapt.measures.replacement import text_curve
    from rapt.privacy.categories import listed
    from rapt.privacy.mechanisms import word_mechanism
    from rapt.privacy.privatizer import Privatizer
    from rapt.text.table import EmbeddingTable

    wanted = {"replaced": replaced, "recovered": recovered}
    if (got := sum(share is not None for share in wanted.values())) != 1:
        raise RaptError(f"rapt calibrate: got {got} of --replaced and --recovered, expected one.")
    for name, share in wanted.items():
        if share is not None and not 0 < share < 1:
            raise RaptError(f"--{name}: got {share}, expected a number above 0 and below 1.")
    folder = table or defaults.table()
    opened, among = EmbeddingTable(folder), listed(categories or ())
    mechanism = mechanism or ("pct2t" if among else "t2t")
    made = word_mechanism(mechanism)
    counts = None
    if text:
        using = tagger or defaults.tagger()
        lines: dict[str, Any] = {"header": header, "delimiter": delimiter, "encoding": encoding}
        counts = _counted(text, column, format, lines, using, language, tags=among is not None)
    over = text_curve(opened, made, among, counts, words=words, draws=draws, seed=SEED)
    where = f"{text or 'public text'}, with {folder}"
    if replaced is None:
        at = partial(Privatizer, table=opened, mechanism=made, categories=among)
        typer.echo(_recovered(over, at, recovered or 0, f"{mechanism} on {where}"))
    else:
        claim = f"{mechanism} replaces {replaced:.1%} of the protected words of {where}"
        typer.echo(_mean(over, replaced, claim))
    if text:
        typer.echo(PRIVATE)


def _counted(
    path: Path,
    column: Sequence[str] | None,
    format: str | None,
    lines: Mapping[str, Any],
    tagger: str,
    language: str | None,
    *,
    tags: bool,
) -> Counted:
    """Count the tagged words of a file as a release would read it.

    Raises:
        RaptError: the file is not what it should be, or has no word.
    """
    from rapt.data.read import TEXT, file_format
    from rapt.measures.replacement import counted
    from rapt.release.formats import STREAM, format_name
    from rapt.release.job import FOLDER, Job
    from rapt.release.text import tagged_pieces
    from rapt.text.language import check, of_tagger
    from rapt.text.tagging import Tagger

    if path != STREAM and not path.exists():
        raise RaptError(f"{path}: got no such file, expected a file or a folder.")
    kind = FOLDER if path.is_dir() else format_name(path, STREAM, format)
    columns = tuple(dict.fromkeys(column or (TEXT,)))
    texts = Job(path, STREAM, file_format(kind, **lines), columns).texts()
    using = Tagger(tagger, tags=tags)

    def tagged() -> Iterator[tuple[list[str], list[str], list[str | None]]]:
        while some := list(islice(texts, AT_ONCE)):
            check(some, of_tagger(tagger), language)
            for pieces in tagged_pieces(using, some):
                yield from ((piece.words, piece.pos, piece.identifiers) for piece in pieces)

    counts = counted(tagged())
    if not counts:
        raise RaptError(f"{path}: got no word, expected texts.")
    return counts


def _mean(found: TextCurve, share: float, claim: str) -> str:
    """The η, the shares there with their intervals, and of what they are.

    Raises:
        RaptError: no η gives this share.
    """
    from rapt.measures.strength import ENOUGH

    eta = found.eta_for(share)
    least = found.replaced(float("inf")).protected.value
    if eta.eta == float("inf"):
        raise RaptError(
            f"--replaced: got {share:g}, expected more than {least:.2g}. So many protected words "
            "are not in the table, or in another category, and always replaced."
        )
    if eta.eta == 0:
        raise RaptError(f"eta: got none small enough, expected one where {claim}.")
    at = found.replaced(eta.eta)
    shares = {
        "of the protected words that the table lists in their category": at.known,
        "of all protected words": at.protected,
        "of all words": at.all_words,
    }
    lines = [f"  {_percent(s)} {name}" for name, s in shares.items() if s]
    if at.all_words is None:
        of = "95 % over words that the table lists, by public frequency; others come on top"
    elif len(found.texts) == 1:
        of = "95 % for this text, over the words drawn"
    else:
        of = f"99 % for a text of another kind than the {len(found.texts)} kinds of public text"
    weak = [f"rapt privatize calls it weak: below {ENOUGH:.0%} of the first kind."]
    return "\n".join(
        [
            f"eta {eta.eta:.4g} ({eta.low:.4g} to {eta.high:.4g}): {claim}.",
            *lines,
            *(weak if at.known.value < ENOUGH else []),
            f"(Intervals of {of}; {found.draws} words of each, {found.curve.draws} draws each.)",
        ]
    )


def _recovered(found: TextCurve, at: Callable[..., Privatizer], share: float, of: str) -> str:
    """The η, and what is recovered there.

    Raises:
        RaptError: no η keeps recovery so low.
    """
    from rapt.measures.level_search import eta_for_recovered

    if (at_most := eta_for_recovered(found, at, share, SEED)) is None:
        raise RaptError(
            f"--recovered: got {share:g}, expected more: at no eta is the upper bound so low. Draw "
            "more --words."
        )
    return (
        f"eta {at_most['eta']:g}: of {of} an attacker recovers {at_most['recovered']:.1%} of the "
        f"protected words, at most {at_most['recovered_high']:.1%}.\n(He knows mechanism, eta and "
        "public frequencies, and reads each word alone. By the context he recovers more.)"
    )


def _percent(share: Share) -> str:
    return f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"
