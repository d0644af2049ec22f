"""Reading texts from a file of any size chunk by chunk, and writing the same file with others."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rapt.data.read import missing_column
from rapt.utils.errors import RaptError, not_allowed, one_of

T = TypeVar("T")
Texts = Mapping[str, Sequence[str | None]]  # column -> its values, null where there is none

CHUNK = 200_000  # characters (bytes, in Parquet) of the rows read at a time; a row may be longer
ROW_GROUP = 64 << 20  # bytes of the rows that Parquet writes at a time
ROWS = 256
BOM = "\ufeff"
SUFFIXES = {
    ".txt": "text",
    ".text": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
STREAM = Path("-")  # the standard input, or output
TEXT = "text"  # the name of the one column that lines of text have


@dataclass(frozen=True)
class Input:
    """Where to read from: a file, or a stream that can be read once (`-`, a pipe).

    Attributes:
        path: as given; `-` is the standard input.
    """

    path: Path

    @property
    def where(self) -> str:
        """Its name, for errors."""
        return "stdin" if self.path == STREAM else str(self.path)

    @property
    def is_file(self) -> bool:
        """Whether it can be read again."""
        return self.path.is_file()

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Its bytes."""
        if self.path == STREAM:
            yield sys.stdin.buffer
            return
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise RaptError(f"{self.where}: {error.strerror}") from None
        with file:
            yield file


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file, in order; the same rows whenever it is read.

    Attributes:
        number: of the chunk, from 0.
        texts: what is to be privatized.
        rows: these rows, as their format writes them.
        others: the names of the columns that pass as they are.
        head: what the file has before its rows, in the first chunk.
        end: what ends a row.
    """

    number: int
    texts: Texts
    rows: Any
    others: frozenset[str] = frozenset()
    head: str = ""
    end: str = "\n"


class Format(ABC):
    """A file of texts in one format."""

    def __init__(self, input: Input, columns: Sequence[str], drop_others: bool) -> None:
        """Privatize `columns` of `input`; the others pass as they are, or are left out."""
        self.input, self.columns, self.drop_others = input, tuple(columns), drop_others

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Read the file.

        Raises:
            RaptError: it is not of this format, not UTF-8, or has no such column of text; never
                with text of the file.
        """

    @abstractmethod
    def encode(self, chunk: Chunk, texts: Texts) -> bytes:
        """A part of the new file: the rows of a chunk with other texts."""

    def join(self, parts: Iterable[Path], out: Path) -> None:
        """Make the new file of its parts."""
        with out.open("wb") as file:
            for part in parts:
                with part.open("rb") as opened:
                    shutil.copyfileobj(opened, file)

    def _error(self, problem: str) -> RaptError:
        return RaptError(f"{self.input.where}: {problem}")

    def _lines(self, file: BinaryIO) -> Iterator[str]:
        for number, line in enumerate(file, start=1):
            try:
                yield line.decode()
            except UnicodeDecodeError:
                raise self._error(f"line {number} is not UTF-8; save the file as UTF-8") from None

    def _check_columns(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise self._error("two columns have one name")
        for column in self.columns:
            if column not in names:
                raise self._error(missing_column("column", column, list(names)))

    def _is_kept(self, name: str) -> bool:
        return name in self.columns or not self.drop_others

    def _passing(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(name for name in names if self._is_kept(name)) - {*self.columns}


class Lines(Format):
    """A document a line; each keeps its line end."""

    def chunks(self) -> Iterator[Chunk]:
        """Read the lines."""
        if self.columns != (TEXT,):
            raise RaptError(f"column: got {self.columns[0]!r}, expected none with format text.")
        with self.input.open() as file:
            for number, lines in enumerate(_grouped(self._lines(file), len, CHUNK)):
                bom = BOM if number == 0 and lines[0].startswith(BOM) else ""
                texts = [line.removeprefix(bom).rstrip("\r\n") for line in lines]
                ends = [line[len(line.rstrip("\r\n")) :] for line in lines]
                yield Chunk(number, {TEXT: texts}, ends, head=bom)

    def encode(self, chunk: Chunk, texts: Texts) -> bytes:
        """The lines."""
        lines = (f"{text}{end}" for text, end in zip(texts[TEXT], chunk.rows, strict=True))
        return (chunk.head + "".join(lines)).encode()


class Records(Format):
    """Lines that hold records: names and values. A BOM and the kind of line end stay."""

    def chunks(self) -> Iterator[Chunk]:
        """Read the records."""
        with self.input.open() as file:
            lines = self._lines(file)
            first = next(lines, "")
            bom = BOM if first.startswith(BOM) else ""
            end = "\r\n" if first.endswith("\r\n") else "\n"
            records = self._records(chain([first.removeprefix(bom)], lines))
            for number, rows in enumerate(_grouped(records, _size, CHUNK)):
                if number == 0:
                    self._check_columns(list(rows[0]))
                yield Chunk(
                    number,
                    {column: [row.get(column) for row in rows] for column in self.columns},
                    rows,
                    self._passing(name for row in rows for name in row),
                    bom + self._header(self._kept(rows[0]), end) if number == 0 else "",
                    end,
                )

    def encode(self, chunk: Chunk, texts: Texts) -> bytes:
        """The records, one for one; a value that is not there stays away."""
        lines = [chunk.head]
        for i, row in enumerate(chunk.rows):
            new = {name: values[i] for name, values in texts.items() if name in row}
            lines.append(self._line(self._kept(row | new), chunk.end))
        return "".join(lines).encode()

    def _kept(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if self._is_kept(name)}

    @abstractmethod
    def _records(self, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
        """The records of these lines."""

    def _header(self, row: dict[str, Any], end: str) -> str:
        return ""

    @abstractmethod
    def _line(self, row: dict[str, Any], end: str) -> str:
        """A record as text."""


class Csv(Records):
    """Separated by commas, with a header; double quotes enclose fields, also over several lines."""

    delimiter = ","

    def _records(self, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
        csv.field_size_limit(sys.maxsize)
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        try:
            names = next(reader, [])
            self._check_columns(names)
            for record in reader:
                if not record and len(names) > 1:
                    continue  # a blank line is no record, but where an empty value looks like it
                fields = record or [""]
                if len(fields) != len(names):
                    raise self._error(
                        f"line {reader.line_num}: got {len(fields)} fields, expected {len(names)}, "
                        "one for each column."
                    )
                yield dict(zip(names, fields, strict=True))
        except csv.Error as error:
            raise self._error(f"line {reader.line_num}: {error}") from None

    def _header(self, row: dict[str, Any], end: str) -> str:
        return self._line({name: name for name in row}, end)

    def _line(self, row: dict[str, Any], end: str) -> str:
        written = io.StringIO(newline="")
        # Quotes whatever holds a character of its line end, so both of them; then takes it off.
        csv.writer(written, delimiter=self.delimiter, lineterminator="\r\n").writerow(row.values())
        return written.getvalue().removesuffix("\r\n") + end


class Tsv(Csv):
    """The same, separated by tabs."""

    delimiter = "\t"


class Jsonl(Records):
    """A JSON object a line."""

    def _records(self, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # whose messages may quote the line
                raise self._error(f"line {number} is not JSON") from None
            if not isinstance(row, dict):
                raise self._error(f"line {number}: got no JSON object, expected one on each line.")
            for column in self.columns:
                if not isinstance(row.get(column), str | None):
                    raise self._error(
                        f"line {number}: got a {type(row[column]).__name__} in column {column!r}, "
                        "expected text or null."
                    )
            yield row

    def _line(self, row: dict[str, Any], end: str) -> str:
        line = json.dumps(row, ensure_ascii=False)
        # Half of a UTF-16 pair, which JSON can escape, is no UTF-8.
        return (line if _is_utf8(line) else json.dumps(row)) + end


class Parquet(Format):
    """Parquet: every column keeps its type; the file's own metadata is left behind."""

    def chunks(self) -> Iterator[Chunk]:
        """Read the row groups."""
        if not self.input.is_file:
            raise self._error("format parquet needs a file, it cannot be read from a stream")
        try:
            with pq.ParquetFile(self.input.path, pre_buffer=False) as file:
                self._check_schema(file.schema_arrow)
                names = [name for name in file.schema_arrow.names if self._is_kept(name)]
                bare = _without_metadata(file.schema_arrow, names)
                batches = file.iter_batches(ROWS, columns=None if not self.drop_others else names)
                for number, group in enumerate(
                    _grouped(batches, lambda batch: batch.nbytes, CHUNK)
                ):
                    rows = pa.Table.from_batches(group).cast(bare)
                    texts = {name: rows[name].to_pylist() for name in self.columns}
                    yield Chunk(number, texts, rows, self._passing(names))
        except UnicodeDecodeError:
            raise self._error("its text is not UTF-8") from None
        except (pa.ArrowException, OSError):
            raise self._error("not a Parquet file, or a broken one") from None

    def encode(self, chunk: Chunk, texts: Texts) -> bytes:
        """The rows as a Parquet file of their own."""
        table = chunk.rows
        for name, values in texts.items():
            at = table.schema.get_field_index(name)
            field = table.schema.field(at)
            kind = field.type if _is_plain(field.type) else pa.string()
            table = table.set_column(at, field.with_type(kind), pa.array(values, kind))
        written = io.BytesIO()
        pq.write_table(table, written, compression="zstd")
        return written.getvalue()

    def join(self, parts: Iterable[Path], out: Path) -> None:
        """Write the rows of all parts in larger row groups."""
        tables = (pq.ParquetFile(part).read() for part in parts)
        first = next(tables)
        groups = _grouped(chain([first], tables), lambda table: table.nbytes, ROW_GROUP)
        with pq.ParquetWriter(out, first.schema, compression="zstd") as writer:
            for group in groups:
                writer.write_table(pa.concat_tables(group))

    def _check_schema(self, schema: pa.Schema) -> None:
        self._check_columns(schema.names)
        for name in self.columns:
            kind = schema.field(name).type
            if not _is_text(kind):
                raise self._error(f"got {kind} in column {name!r}, expected text.")


FORMATS: dict[str, type[Format]] = {
    "text": Lines,
    "csv": Csv,
    "tsv": Tsv,
    "jsonl": Jsonl,
    "parquet": Parquet,
}


def format_name(path: Path, out: Path, given: str | None) -> str:
    """The format of a release: as given, else by the suffix of its input or its output.

    Raises:
        RaptError: there is no such format, or a suffix says another.
    """
    if given is not None and given not in FORMATS:
        raise RaptError(not_allowed("format", given, FORMATS))
    by_suffix = [SUFFIXES.get(p.suffix.lower()) for p in (path, out)]
    name = given or by_suffix[0] or by_suffix[1]
    if name is None:
        if STREAM in (path, out):
            return "text"
        raise RaptError(
            f"format: got none, and none known by the suffix {path.suffix!r}, expected "
            f"{one_of(FORMATS)}. Give it with --format."
        )
    if by_suffix[1] not in (None, name):
        raise RaptError(f"{out}: got {by_suffix[1]}, expected {name}, the format of the input.")
    return name


def _grouped(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in order, as many at a time as make up this size."""
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += 1 + size(item)
        if total >= most:
            yield group
            group, total = [], 0
    if group:
        yield group


def _size(row: dict[str, Any]) -> int:
    return sum(len(str(value)) for value in row.values())


def _is_plain(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return _is_plain(kind) or pa.types.is_string_view(kind)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_metadata(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """These fields, without what a writer may have noted at them."""
    return pa.schema([_bare(schema.field(name)) for name in names])


def _bare(field: pa.Field) -> pa.Field:
    """A field without metadata, nor its children's."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_bare(child) for child in kind])
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_bare(kind.value_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_bare(kind.value_field))
    return pa.field(field.name, kind, field.nullable)
