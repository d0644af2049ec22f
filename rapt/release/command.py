"""`rapt privatize`: a job from its options, and a summary in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from rapt import defaults
from rapt.data.read import TEXT, file_format
from rapt.measures import strength
from rapt.measures.strength import MOST_TIMES
from rapt.privacy.categories import listed
from rapt.privacy.fates import NOISE, PLACEHOLDER, Counts
from rapt.privacy.privatizer import Privatizer
from rapt.release.formats import STREAM, format_name
from rapt.release.job import FOLDER, Job
from rapt.release.text import TextPrivatizer
from rapt.text.language import TEXTS
from rapt.utils.errors import RaptError, check_place, wrong_eta


def prepared(
    path: Path,
    out: Path,
    *,
    eta: float | None,
    format: str | None,
    column: Sequence[str] | None,
    keep: Sequence[str] | None,
    keep_all: bool,
    header: bool = True,
    delimiter: str | None = None,
    encoding: str | None = None,
    keep_map: Path | None,
    overwrite: bool,
    table: Path | None,
    tagger: str | None,
    seed: int | None,
    categories: Sequence[str] | None,
    parameter: Sequence[str] | None,
    detector: Sequence[str] | None,
    **options: Any,
) -> tuple[Job, TextPrivatizer]:
    """Build and check the job and the privatizer from the options of `rapt privatize`.

    Raises:
        RaptError: an option is not allowed.
    """
    if eta is None:
        raise RaptError(f"--eta: {wrong_eta(None)}")
    if seed is not None:
        raise RaptError(
            "seed: got one, expected none, as whoever knows it can repeat the noise and undo the "
            "release. For tests use --insecure-seed."
        )
    if path.is_dir() and format not in (None, FOLDER):
        raise RaptError(f"{path}: got a folder, expected a file with format {format}.")
    kind = FOLDER if path.is_dir() else format_name(path, out, format)
    table_format = file_format(kind, header=header, delimiter=delimiter, encoding=encoding)
    if keep and keep_all:
        raise RaptError("keep: got columns beside --keep-all, expected one of both.")
    kept = None if keep_all else tuple(listed(keep or ()) or ())
    if keep_map == STREAM:
        raise RaptError("--keep-map: got -, expected a file. Give its path.")
    for key, place in (("OUT", out), ("--keep-map", keep_map)):
        if place and place != STREAM:
            check_place(key, place)
    columns = tuple(dict.fromkeys(column or (TEXT,)))
    job = Job(path, out, table_format, columns, kept, keep_map, overwrite)
    with _naming_the_option(column):
        job.check()
    privatizer = TextPrivatizer(
        eta=eta,
        table=table or defaults.table(),
        tagger=tagger or defaults.tagger(),
        categories=listed(categories or ()),
        detectors=list(detector or ()),
        parameters=dict(_parameter(given) for given in parameter or ()),
        **options,
    )
    # Before anything is written; what follows, or comes by a stream, is checked as it is read.
    again = path != STREAM and (path.is_dir() or path.is_file())  # a pipe would be drained
    with _naming_the_option(column):
        first = list(islice(job.texts(), TEXTS)) if again else []
    privatizer.check(first)
    return job, privatizer


@contextmanager
def _naming_the_option(column: Sequence[str] | None) -> Iterator[None]:
    """Name --column where nobody named a column, and there is none called text."""
    try:
        yield
    except RaptError as error:
        if not column and f"column: got {TEXT!r}" in str(error):
            error.args = (f"{error} Name yours by --column.",)
        raise


def _parameter(given: str) -> tuple[str, float]:
    """Parse a mechanism's parameter: `weight=0.5`."""
    name, _, value = given.partition("=")
    try:
        number = float(value)
    except ValueError:
        raise RaptError(f"parameter: got {given!r}, expected NAME=NUMBER.") from None
    return name, int(number) if number.is_integer() else number


def summary(
    out: Path, counts: Counts, *, seeded: bool, privatizer: Privatizer | None = None
) -> str:
    """Summarize a release in one line; only for the user, as it reveals more than the release.

    Args:
        out: where the release is.
        counts: its counts.
        seeded: whether its noise is.
        privatizer: of the release, to say what several releases let an attacker read.
    """
    noise, placeholders = counts.fates[NOISE], sum(counts.kinds(PLACEHOLDER).values())
    of_all = counts.replaced / counts.words if counts.words else 0.0
    share = f" ({counts.replaced / noise:.0%} became another: {of_all:.0%} of all)" if noise else ""
    where = "above" if out == STREAM else f"{out}.privacy.txt"
    again = (
        f" The ledger knows {counts.again} of the texts from earlier releases: losses add up. One "
        f"of them has now been released {counts.times:.3g} times ({counts.lost}; rapt ledger)."
        f"{_read(privatizer, counts.times)}"
        if counts.again
        else ""
    )
    if seeded:
        again = " The ledger counts nothing, as the noise is seeded."
    unchanged = f" {counts.unchanged} texts came out unchanged." if counts.unchanged else ""
    halves = f" {counts.halves} halves of surrogate pairs became U+FFFD." if counts.halves else ""
    columns = (
        f"{halves} Columns that leave as they are: {', '.join(sorted(counts.others)) or 'none'}."
    )
    return (
        f"{counts.documents} documents, {counts.words} words: {noise} got noise{share}, "
        f"{placeholders} became placeholders, {counts.words - noise - placeholders} stand as they "
        f"were.{_names(counts.names)}{unchanged}{columns} What that means: "
        f"{where}{'.' + again if again else ''}"
    )


def _read(privatizer: Privatizer | None, times: float) -> str:
    """Say what an attacker reads who has several releases of a text."""
    if not privatizer or times < 2:
        return ""
    once, again = (strength.read_after(privatizer, n) for n in (1, int(times)))
    return (
        f" Of public text's protected words, an attacker with {min(int(times), MOST_TIMES)} such "
        f"releases reads about {again:.0%}, with one {once:.0%}."
    )


def _names(names: Mapping[str, int]) -> str:
    """Say how many proper nouns can still be read."""
    every = names["noise"] + names["placeholder"] + names["verbatim"]
    if not every:
        return ""
    stand = names["kept"] + names["verbatim"]
    advice = " --names placeholder hides those that are recognized." if stand else ""
    return f" Of {every} proper nouns {stand} stand as they were.{advice}"
