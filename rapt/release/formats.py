"""Reading texts from a file of any size chunk by chunk, and writing the same file with others."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from rapt.data.config import SUFFIXES as OF_TABLES
from rapt.data.read import missing_column
from rapt.utils.batches import by_size
from rapt.utils.errors import RaptError, not_allowed, one_of

Texts = Mapping[str, Sequence[str | None]]  # column -> its values, null where there is none

CHUNK = 200_000  # characters (bytes, in Parquet) of the rows read at a time; a row may be longer
ROW_GROUP = 64 << 20  # bytes of the rows that Parquet writes at a time
ROWS = 256
BOM = "\ufeff"
SUFFIXES = {".txt": "text", ".text": "text", **OF_TABLES}
STREAM = Path("-")  # the standard input, or output
TEXT = "text"  # the name of the one column that lines of text have


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file, in order; the same rows whenever it is read.

    Attributes:
        number: of the chunk, from 0.
        texts: what is to be privatized.
        others: the names of the columns that pass as they are.
        encode: writes these rows with other texts, as a part of the new file.
    """

    number: int
    texts: Texts
    others: frozenset[str]
    encode: Callable[[Texts], bytes]

    @property
    def size(self) -> int:
        """How many rows these are."""
        return len(next(iter(self.texts.values())))


class Format(ABC):
    """A file of texts in one format, or a stream that can be read once (`-`, a pipe)."""

    has_fixed_columns = True  # else a row may lack some that others have

    def __init__(self, path: Path, columns: Sequence[str], keep: Sequence[str] | None = ()) -> None:
        """Privatize `columns` of `path`; those to keep pass as they are, None: all others."""
        self.path, self.columns, self.keep = path, tuple(columns), keep

    @property
    def where(self) -> str:
        """Its name, for errors."""
        return "stdin" if self.path == STREAM else str(self.path)

    @property
    def is_file(self) -> bool:
        """Whether it can be read again."""
        return self.path.is_file()

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Read the file.

        Raises:
            RaptError: it is not of this format, not UTF-8, or has no such column of text; never
                with text of the file.
        """

    def join(self, parts: Iterable[Path], out: Path) -> None:
        """Make the new file of its parts."""
        with out.open("wb") as file:
            for part in parts:
                with part.open("rb") as opened:
                    shutil.copyfileobj(opened, file)

    def _error(self, problem: str) -> RaptError:
        return RaptError(f"{self.where}: {problem}")

    def _check_columns(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise self._error("got two columns of one name, expected a name for each. Rename one.")
        for key, columns in (("column", self.columns), ("keep", self.keep or ())):
            for column in columns:
                if column not in names and (key == "column" or self.has_fixed_columns):
                    raise self._error(missing_column(key, column, list(names)))

    def _is_kept(self, name: str) -> bool:
        return name in self.columns or self.keep is None or name in self.keep

    def _others(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(name for name in names if self._is_kept(name)) - {*self.columns}


@dataclass(frozen=True)
class Record:
    """The values of a line, by name, and what ends it."""

    values: dict[str, Any]
    end: str


class Records(Format):
    """Lines that hold records, names with values. A BOM and the kind of line end stay."""

    has_header = False

    def chunks(self) -> Iterator[Chunk]:
        """Read the records."""
        lines = self._lines()
        first = next(lines, None)
        bom = BOM if first and first.startswith(BOM) else ""
        records = self._records(chain([first.removeprefix(bom)], lines) if first else lines)
        seen = dict[str, None]()
        for number, rows in enumerate(by_size(records, _size, CHUNK)):
            head = ""
            if number == 0:
                names, end = list(rows[0].values), rows[0].end
                self._check_columns(names)
                header = self._line({name: name for name in names if self._is_kept(name)})
                head = bom + (header + end if self.has_header else "")
            seen |= dict.fromkeys(name for row in rows for name in row.values)
            yield Chunk(
                number,
                {column: [row.values.get(column) for row in rows] for column in self.columns},
                self._others(name for row in rows for name in row.values),
                partial(self._encode, head, rows),
            )
        for name in self.keep or ():
            if seen and name not in seen:
                raise self._error(missing_column("keep", name, list(seen)))

    def _lines(self) -> Iterator[str]:
        with nullcontext(sys.stdin.buffer) if self.path == STREAM else self._opened() as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield line.decode()
                except UnicodeDecodeError:
                    raise self._error(
                        f"line {number}: got another encoding, expected UTF-8. Save it as UTF-8."
                    ) from None

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            got = (error.strerror or "an error").lower()
            raise self._error(f"got {got}, expected a file to read.") from None

    def _encode(self, head: str, rows: Sequence[Record], texts: Texts) -> bytes:
        """The records, one for one; a value that is not there stays away."""
        lines = [head]
        for i, row in enumerate(rows):
            new = {name: values[i] for name, values in texts.items() if name in row.values}
            kept = {name: v for name, v in (row.values | new).items() if self._is_kept(name)}
            lines.append(self._line(kept) + row.end)
        # Half of a UTF-16 pair, which JSON can escape, is no UTF-8: it is escaped again.
        return "".join(lines).encode(errors="backslashreplace")

    @abstractmethod
    def _records(self, lines: Iterator[str]) -> Iterator[Record]:
        """The records of these lines."""

    @abstractmethod
    def _line(self, values: dict[str, Any]) -> str:
        """A record as text, without its line end."""


class Lines(Records):
    """A document a line."""

    def _records(self, lines: Iterator[str]) -> Iterator[Record]:
        if self.columns != (TEXT,):
            raise RaptError(f"column: got {self.columns[0]!r}, expected none with format text.")
        for line in lines:
            text = line.rstrip("\r\n")
            yield Record({TEXT: text}, line[len(text) :])

    def _line(self, values: dict[str, Any]) -> str:
        return str(values[TEXT])


class Csv(Records):
    """Separated by commas, with a header; double quotes enclose fields, also over several lines.

    By the standard library, as no reader of pandas or pyarrow tells the line of what is wrong, or
    refuses a stray quote.
    """

    delimiter = ","
    has_header = True

    def _records(self, lines: Iterator[str]) -> Iterator[Record]:
        csv.field_size_limit(sys.maxsize)
        first = next(lines, "")
        end = "\r\n" if first.endswith("\r\n") else "\n"
        reader = csv.reader(chain([first], lines), delimiter=self.delimiter, strict=True)
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
                yield Record(dict(zip(names, fields, strict=True)), end)
        except csv.Error as error:
            raise self._error(
                f"line {reader.line_num}: got broken CSV ({error}), expected a row. See its quotes."
            ) from None

    def _line(self, values: dict[str, Any]) -> str:
        written = io.StringIO(newline="")
        # Quotes whatever holds a character of its line end, so both of them; then takes it off.
        writer = csv.writer(written, delimiter=self.delimiter, lineterminator="\r\n")
        writer.writerow(values.values())
        return written.getvalue().removesuffix("\r\n")


class Tsv(Csv):
    """The same, separated by tabs."""

    delimiter = "\t"


class Jsonl(Records):
    """A JSON object a line."""

    has_fixed_columns = False

    def _records(self, lines: Iterator[str]) -> Iterator[Record]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):  # whose messages may quote the line
                raise self._error(
                    f"line {number}: got what is not JSON, expected an object on each line."
                ) from None
            if not isinstance(values, dict):
                raise self._error(f"line {number}: got no JSON object, expected one on each line.")
            for column in self.columns:
                if not isinstance(values.get(column), str | None):
                    raise self._error(
                        f"line {number}: got a {type(values[column]).__name__} in column "
                        f"{column!r}, expected text or null."
                    )
            yield Record(values, "\r\n" if line.endswith("\r\n") else "\n")

    def _line(self, values: dict[str, Any]) -> str:
        return json.dumps(values, ensure_ascii=False)


class Parquet(Format):
    """Parquet: every column keeps its type; the file's own metadata is left behind."""

    def chunks(self) -> Iterator[Chunk]:
        """Read the row groups."""
        if not self.is_file:
            raise self._error(
                "format: got parquet for a stream, expected a file. Give its path as IN."
            )
        try:
            with pq.ParquetFile(self.path, pre_buffer=False) as file:
                schema = file.schema_arrow
                self._check_columns(schema.names)
                for name in self.columns:
                    if not _is_text(schema.field(name).type):
                        kind = schema.field(name).type
                        raise self._error(f"got {kind} in column {name!r}, expected text.")
                names = [name for name in schema.names if self._is_kept(name)]
                bare = pa.schema([_without_metadata(schema.field(name)) for name in names])
                batches = file.iter_batches(ROWS, columns=names)
                groups = by_size(batches, lambda batch: 1 + batch.nbytes, CHUNK)
                for number, group in enumerate(groups):
                    table = pa.Table.from_batches(group).cast(bare)
                    texts = {name: table[name].to_pylist() for name in self.columns}
                    yield Chunk(number, texts, self._others(names), partial(_encode, table))
        except UnicodeDecodeError:
            raise self._error("got text that is not UTF-8, expected UTF-8.") from None
        except (pa.ArrowException, OSError):
            raise self._error("got another format or a broken file, expected Parquet.") from None

    def join(self, parts: Iterable[Path], out: Path) -> None:
        """Write the rows of all parts in larger row groups."""
        tables = (pq.ParquetFile(part).read() for part in parts)
        first = next(tables)
        groups = by_size(chain([first], tables), lambda table: 1 + table.nbytes, ROW_GROUP)
        with pq.ParquetWriter(out, first.schema, compression="zstd") as writer:
            for group in groups:
                writer.write_table(pa.concat_tables(group))


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


def _size(row: Record) -> int:
    return 1 + sum(len(str(value)) for value in row.values.values())


def _encode(table: pa.Table, texts: Texts) -> bytes:
    """The rows of a table with other texts, as a Parquet file of their own."""
    for name, values in texts.items():
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        kind = field.type if _is_plain(field.type) else pa.string()
        table = table.set_column(at, field.with_type(kind), pa.array(values, kind))
    written = io.BytesIO()
    pq.write_table(table, written, compression="zstd")
    return written.getvalue()


def _is_plain(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return _is_plain(kind) or pa.types.is_string_view(kind)


def _without_metadata(field: pa.Field) -> pa.Field:
    """A field without what a writer may have noted at it and its children."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_without_metadata(child) for child in kind])
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_without_metadata(kind.value_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_without_metadata(kind.value_field))
    return pa.field(field.name, kind, field.nullable)
