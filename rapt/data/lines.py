"""Lines and records of text files: their encoding, their delimiter, their header."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, BinaryIO

from rapt.data.config import Format
from rapt.utils.errors import RaptError

BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is the beginning of this one
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
DELIMITERS = ",;\t|"
SAMPLE = 1 << 16  # characters from which the delimiter is found

_UNDECODED = re.compile("[\udc80-\udcff]")  # what the error handler surrogateescape makes of bytes
_HALVES = re.compile("[\ud800-\udfff]")
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*')  # Excel's first line


class TextLines:
    """The lines of a file, each with its end: CR, LF or CRLF.

    Attributes:
        has_bom: whether the file begins with a byte order mark, which is in no line.
    """

    def __init__(self, file: BinaryIO, encoding: str | None, where: str) -> None:
        """Find the encoding of a file; without a byte order mark or a name it is UTF-8."""
        buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)  # type: ignore[type-var]
        start = buffered.peek(4)
        by_mark = next((name for mark, name in BOMS.items() if start.startswith(mark)), None)
        self.has_bom, self._where, self._encoding = by_mark is not None, where, encoding
        # With a mark its name is the safest: utf-16-le would leave the mark in the first line.
        self._file = io.TextIOWrapper(
            buffered, by_mark or encoding or "utf-8", "surrogateescape", newline=""
        )

    def __iter__(self) -> Iterator[str]:
        """Yield the lines.

        Raises:
            RaptError: one is of another encoding, or has a NUL, as UTF-16 has that is taken for
                UTF-8.
        """
        number = 0
        try:
            for number, line in enumerate(self._file, start=1):
                if _UNDECODED.search(line):
                    raise self._other_encoding(number)
                if "\0" in line:
                    raise RaptError(
                        f"{self._where}: line {number}: got a NUL character, expected text. "
                        f"{_likely(line)}"
                    )
                yield line
        except UnicodeDecodeError:
            raise self._other_encoding(number + 1) from None
        finally:
            if not self._file.closed:
                self._file.detach()  # else it would close the standard input

    def _other_encoding(self, line: int) -> RaptError:
        expected = self._encoding or "UTF-8"
        return RaptError(
            f"{self._where}: line {line}: got another encoding, expected {expected}. Save it as "
            f"UTF-8, or {_set('encoding', 'cp1252')}."
        )


def without_halves(text: str) -> tuple[str, int]:
    """Replace halves of surrogate pairs, which JSON can escape, by U+FFFD; return how many."""
    return _HALVES.subn("\ufffd", text)


class Delimited:
    """Records of fields with a delimiter between them; double quotes may enclose a field.

    By the standard library, as no reader of pandas or pyarrow says in which line something is
    wrong, or refuses a stray quote.

    Attributes:
        delimiter: as configured, as a first line `sep=;` says, or as found.
        names: of the columns, without white space around them. They may be empty or repeat.
        header: the names as they stand in the file; None: it has no header.
        separator_line: a first line as `sep=;`, with its end, or nothing.
        end: the end of the file's first line.
    """

    def __init__(self, lines: Iterable[str], format: Format, where: str) -> None:
        """Read the header.

        Raises:
            RaptError: it is no record.
        """
        csv.field_size_limit(sys.maxsize)
        self._where, self._first = where, 1
        remaining = iter(lines)
        sample = list(_sampled(remaining))
        self.end = re.findall("(?:\r\n|\r|\n)?$", sample[0])[0] or "\n" if sample else "\n"
        self.separator_line = ""
        if sample and (separator := _SEPARATOR.fullmatch(sample[0])):
            self.separator_line, self._first = sample.pop(0), 2
        self._quoting: Any = csv.QUOTE_MINIMAL if format.quoted else csv.QUOTE_NONE
        self.delimiter = (
            format.delimiter
            or (separator[1] if self.separator_line and separator else None)
            or self._found(sample, "\t" if format.type == "tsv" else ",")
        )
        self._reader = self._records(chain(sample, remaining), self.delimiter)
        first = next(self, None) if format.names is None else None
        while first and not first[1] and format.header:  # blank lines before the header
            first = next(self, None)
        self.header = first[1] if first and format.header else None
        self._pending = [first] if first and not format.header else []
        numbers = (str(i) for i in range(1, 1 + len(first[1] if first else [])))
        self.names = format.names or [name.strip() for name in self.header or numbers]

    def __iter__(self) -> Delimited:
        return self

    def __next__(self) -> tuple[int, list[str]]:
        """Return the next record and the number of its last line."""
        try:
            row = next(self._reader)
        except csv.Error as error:
            raise RaptError(
                f"{self._where}: line {self._line}: got {error}, expected a record with "
                f"{self.delimiter!r} between its fields. See its quotes, or "
                f"{_set('delimiter', ';')}."
            ) from None
        return self._line, row

    def records(self, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Yield each record, with as many fields as there are names, and its last line's number.

        A blank line is no record, but where an empty value of a single column looks like it.

        Args:
            skip: number of records that are left out after the header.

        Raises:
            RaptError: a record has more or fewer fields, or broken quotes.
        """
        rows = (pair for pair in chain(self._pending, self) if pair[1] or len(self.names) < 2)
        for number, (line, row) in enumerate(rows):
            fields = row or [""]
            if number < skip:
                continue
            if len(fields) != len(self.names):
                raise RaptError(
                    f"{self._where}: line {line}: got {len(fields)} fields, expected "
                    f"{len(self.names)}, one for each column, with {self.delimiter!r} between "
                    f"them. See its quotes, or {_set('delimiter', ';')}."
                )
            yield line, fields

    @property
    def _line(self) -> int:
        return self._first - 1 + self._reader.line_num

    def _records(self, lines: Iterable[str], delimiter: str) -> Any:
        return csv.reader(lines, delimiter=delimiter, quoting=self._quoting, strict=True)

    def _found(self, sample: list[str], usual: str) -> str:
        """Return the delimiter by which most of a file's first records are as long as the first."""
        scores = {}
        for delimiter in DELIMITERS:
            lengths = self._lengths(sample, delimiter)
            if lengths and lengths[0] > 1:
                share = lengths.count(lengths[0]) / len(lengths)
                scores[delimiter] = share, delimiter == usual, lengths[0]
        return max(scores, key=lambda delimiter: scores[delimiter], default=usual)

    def _lengths(self, sample: list[str], delimiter: str) -> list[int]:
        lengths = []
        with suppress(csv.Error):  # of broken quotes, or where the sample ends
            for row in self._records(sample, delimiter):
                if row:
                    lengths.append(len(row))
        return lengths


def _sampled(lines: Iterator[str]) -> Iterator[str]:
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size >= SAMPLE:
            return


def _likely(line: str) -> str:
    """Name the encoding of a line with NULs that was taken for UTF-8."""
    zeros = [at for at, character in enumerate(line[:400]) if character == "\0"]
    if 2 * len(zeros) > len(line[:400]):
        likely = "utf-32"
    elif len({at % 2 for at in zeros}) == 1:
        likely = "utf-16"
    else:
        return "It may be no text file."
    return f"It looks like {likely.upper()}: {_set('encoding', f'{likely}-le')} (or {likely}-be)."


def _set(key: str, example: str) -> str:
    return f"set {key} as {example!r} (--{key}, or {key} in the task's format)"
