"""Reading texts from a file of any size chunk by chunk, and writing the same file with others."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rapt.data.config import SUFFIXES, Format
from rapt.data.lines import Delimited, TextLines, without_halves
from rapt.data.nested import (
    CONTENT,
    EXPECTED,
    NoText,
    Span,
    kept_members,
    members,
    text_spans,
    texts_of,
    with_texts,
)
from rapt.data.read import TEXT, missing_column, objects
from rapt.release.parts import Unreachable
from rapt.utils.batches import by_size
from rapt.utils.errors import RaptError, not_allowed, one_of
from rapt.utils.files import Digested

T = TypeVar("T")
# Column -> its texts, None where one is missing: of each row those that its value holds, in order.
Texts = Mapping[str, Sequence[str | None]]

CHUNK = 200_000  # characters (bytes, in Parquet) of the rows read at a time; a row may be longer
ROW_GROUP = 64 << 20  # bytes of the rows that Parquet writes at a time
ROWS = 256
BOM = "\ufeff"
STREAM = Path("-")  # the standard input, or output
# The types of a text in Parquet, and what its views are of.
VIEWED = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
OF_TEXT = {pa.null(), *VIEWED, *VIEWED.values(), pa.large_string(), pa.large_binary()}


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file, in order; the same rows whenever it is read.

    Attributes:
        number: of the chunk, from 0.
        size: number of rows.
        texts: what is to be privatized.
        counts: column -> how many of its texts each row has: one, unless its value is a list.
        others: the names of the columns that pass as they are, and of what passes of a chat.
        halves: number of halves of surrogate pairs that became U+FFFD.
        encode: writes these rows with other texts, as a part of the new file.
    """

    number: int
    size: int
    texts: Texts
    counts: Mapping[str, Sequence[int]]
    others: frozenset[str]
    halves: int
    encode: Callable[[Texts], bytes]

    def documents(self, texts: Mapping[str, Sequence[T]]) -> Iterator[list[tuple[str, list[T]]]]:
        """Yield for each row its columns, each with what `texts` has for the row's texts."""
        places = {column: iter(values) for column, values in texts.items()}
        for row in range(self.size):
            yield [
                (column, list(islice(values, self.counts[column][row])))
                for column, values in places.items()
            ]


class TextFile(ABC):
    """A file of texts in one format, or a stream that can be read once (`-`, a pipe).

    Attributes:
        digest: of all that decides its texts, once `chunks` has read it to its end; None: it has
            not, or is a stream.
    """

    digest: str | None = None

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] = (TEXT,),
        keep: Sequence[str] | None = (),
        format: Format | None = None,
    ) -> None:
        """Privatize `columns` of `path`; those to keep pass as they are, None: all others."""
        self.path, self.columns, self.keep = path, tuple(columns), keep
        self.format = format or Format(type="text")

    @property
    def where(self) -> str:
        """Its name, for errors."""
        return "stdin" if self.path == STREAM else str(self.path)

    @property
    def is_file(self) -> bool:
        """Whether it can be read again."""
        return self.path != STREAM and self.path.is_file()

    @contextmanager
    def _digested(self) -> Iterator[BinaryIO]:
        """Open the file; its digest is there after it was read to its end."""
        self.digest = None
        with Digested(self.path) as raw:
            yield io.BufferedReader(raw)
            self.digest = raw.digest.hexdigest()

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

    def _check_columns(self, names: Sequence[str], keep: Sequence[str] | None) -> None:
        for key, columns in (("column", self.columns), ("keep", keep or ())):
            for column in columns:
                if column not in names:
                    raise self._error(missing_column(key, column, names))
                if names.count(column) > 1:
                    raise self._error(
                        f"{key}: got two columns {column!r}, expected one. Rename one."
                    )

    def is_kept(self, name: str) -> bool:
        """Whether a column, or a member of a JSON object, is released."""
        return name in self.columns or self.keep is None or name in self.keep

    def _others(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self.is_kept(name)} - {*self.columns}

    def no_text(self, column: str, problem: NoText, line: int | None = None) -> RaptError:
        """Make the error of a value that holds something else than texts."""
        at = f"line {line}: " if line else ""
        return self._error(f"{at}got {problem} in column {column!r}, expected {EXPECTED}.")


class SourceRow(ABC):
    """A record of a text file.

    Attributes:
        texts: column -> its texts.
        others: the names of what passes as it is.
        halves: number of halves of surrogate pairs that became U+FFFD.
        size: number of characters.
    """

    texts: dict[str, list[str | None]]
    others: set[str]
    halves = 0
    size: int

    @abstractmethod
    def written(self, texts: Mapping[str, Sequence[str | None]]) -> str:
        """Return the record with other texts, and its end."""


class Records(TextFile):
    """Lines that hold records. A byte order mark and the kind of line end stay."""

    def chunks(self) -> Iterator[Chunk]:
        """Read the records."""
        with self._opened() as file:
            lines = TextLines(file, self.format.encoding, self.where)
            head, rows = self._records(iter(lines))
            head = BOM * lines.has_bom + head
            for number, some in enumerate(by_size(rows, lambda row: 1 + row.size, CHUNK)):
                yield Chunk(
                    number,
                    len(some),
                    {name: [*chain(*(row.texts[name] for row in some))] for name in self.columns},
                    {name: [len(row.texts[name]) for row in some] for name in self.columns},
                    frozenset().union(*(row.others for row in some)),
                    sum(row.halves for row in some),
                    partial(_encoded, head * (number == 0), some, self.columns),
                )

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with self._bytes() as file:
                yield file
        except OSError as error:
            got = (error.strerror or "an error").lower()
            raise Unreachable(f"{self.where}: got {got}, expected a file to read.") from None
        except UnicodeError:  # UTF-16 without its mark, or a codec that reads no files
            raise self._error(
                f"encoding: got {self.format.encoding!r}, which does not read this file, expected "
                "its own. Give another, as utf-8, utf-16-le, cp1252."
            ) from None

    def _bytes(self) -> AbstractContextManager[BinaryIO]:
        if self.path == STREAM:
            return nullcontext(sys.stdin.buffer)
        return self._digested() if self.is_file else self.path.open("rb")

    @abstractmethod
    def _records(self, lines: Iterator[str]) -> tuple[str, Iterator[SourceRow]]:
        """Return what stands before the records, and the records."""


def _encoded(head: str, rows: Sequence[SourceRow], columns: Sequence[str], texts: Texts) -> bytes:
    """The records, one for one."""
    places = {column: iter(texts[column]) for column in columns}
    lines = [head]
    for row in rows:
        new = {name: list(islice(places[name], len(row.texts[name]))) for name in columns}
        lines.append(row.written(new))
    return "".join(lines).encode()


class Line(SourceRow):
    """A document a line."""

    def __init__(self, line: str) -> None:
        text = line.rstrip("\r\n")
        self._end = line[len(text) :]
        self.texts, self.others, self.size = {TEXT: [text]}, set(), len(text)

    def written(self, texts: Mapping[str, Sequence[str | None]]) -> str:
        """Return the line."""
        return f"{texts[TEXT][0]}{self._end}"


class Lines(Records):
    """A document a line."""

    def _records(self, lines: Iterator[str]) -> tuple[str, Iterator[SourceRow]]:
        if self.columns != (TEXT,):
            raise RaptError(f"column: got {self.columns[0]!r}, expected none with format text.")
        return "", map(Line, lines)


class Fields(SourceRow):
    """A record of a delimited file."""

    def __init__(self, file: Csv, fields: list[str]) -> None:
        self._file, self._fields = file, fields
        self.texts = {name: [fields[place]] for name, place in file.places.items()}
        self.others, self.size = file.others, sum(map(len, fields))

    def written(self, texts: Mapping[str, Sequence[str | None]]) -> str:
        """Return the fields that are released, in quotes where they need some."""
        fields = list(self._fields)
        for name, place in self._file.places.items():
            fields[place] = texts[name][0] or ""
        return self._file.line(fields)


class Csv(Records):
    """Fields with a delimiter between them; see rapt.data.lines.Delimited."""

    def _records(self, lines: Iterator[str]) -> tuple[str, Iterator[SourceRow]]:
        self._source = source = Delimited(lines, self.format, self.where)
        if not source.names:
            return "", iter(())
        self._check_columns(source.names, self.keep)
        self.places = {name: source.names.index(name) for name in self.columns}
        self._kept = [at for at, name in enumerate(source.names) if self.is_kept(name)]
        self.others = self._others(source.names)
        header = source.separator_line + (self.line(source.header) if source.header else "")
        return header, (Fields(self, row) for _, row in source.records(self.format.skip_rows))

    def line(self, fields: Sequence[str]) -> str:
        """Return a record of those of the fields that are released."""
        written = io.StringIO(newline="")
        # Quotes whatever holds a character of its line end, so both of them; then takes it off.
        writer = csv.writer(written, delimiter=self._source.delimiter, lineterminator="\r\n")
        writer.writerow([fields[at] for at in self._kept])
        return written.getvalue().removesuffix("\r\n") + self._source.end


class JsonObject(SourceRow):
    """An object of JSON, of which all that is not privatized keeps its source text."""

    def __init__(self, file: Jsonl, number: int, line: str, value: dict[str, Any]) -> None:
        self._line, self._end = line, line[len(line.rstrip("\r\n")) :] or "\n"
        self._members = [span for span in members(line) if file.is_kept(span.name)]
        self._spans: dict[str, list[tuple[int, int] | None]] = {}
        self.texts, self.size = {}, sum(len(str(inner)) for inner in value.values())
        self.others = {span.name for span in self._members} - {*file.columns}
        for name in file.columns:
            mine = [span for span in self._members if span.name == name]
            try:
                spans = [place for span in mine for place in text_spans(line, span)] or [None]
            except NoText as problem:
                raise file.no_text(name, problem, number) from None
            self._spans[name] = spans
            self.texts[name] = [self._text(place) for place in spans]
            self.others |= {f"{name}.{kept}" for kept in kept_members(value.get(name))}

    def _text(self, place: tuple[int, int] | None) -> str | None:
        if place is None:
            return None
        text, halves = without_halves(json.loads(self._line[slice(*place)]))
        self.halves += halves
        return text

    def written(self, texts: Mapping[str, Sequence[str | None]]) -> str:
        """Return the members that are released."""
        new = sorted(
            (place, text)
            for name, places in self._spans.items()
            for place, text in zip(places, texts[name], strict=True)
            if place
        )
        return f"{{{', '.join(self._with(new, span) for span in self._members)}}}{self._end}"

    def _with(self, new: list[tuple[tuple[int, int], str | None]], span: Span) -> str:
        parts, at = [], span.key
        for (start, end), text in new:
            if span.start <= start < span.end:
                parts += [self._line[at:start], json.dumps(text, ensure_ascii=False)]
                at = end
        return "".join(parts) + self._line[at : span.end]


class Jsonl(Records):
    """A JSON object a line, which may lack members that others have."""

    def _records(self, lines: Iterator[str]) -> tuple[str, Iterator[SourceRow]]:
        return "", self._objects(lines)

    def _objects(self, lines: Iterator[str]) -> Iterator[SourceRow]:
        names = dict[str, None]()
        for number, line, value in objects(lines, self.where):
            if not names and not self.is_file:  # whose end comes too late
                self._check_columns(list(value), keep=())
            names |= dict.fromkeys(value)
            yield JsonObject(self, number, line, value)
        if names:
            self._check_columns(list(names), self.keep)


class Parquet(TextFile):
    """Parquet: every column keeps the type of its values; the file's metadata is left behind."""

    def chunks(self) -> Iterator[Chunk]:
        """Read the row groups."""
        if not self.is_file:
            raise self._error(
                "format: got parquet for a stream, expected a file. Give its path as IN."
            )
        try:
            # One thread, so that its reads are the same each time.
            with (
                self._digested() as opened,
                pq.ParquetFile(pa.PythonFile(opened, "r"), pre_buffer=False) as file,
            ):
                schema = file.schema_arrow
                self._check_columns(schema.names, schema.names if self.keep is None else self.keep)
                for name in self.columns:
                    kind = schema.field(name).type
                    if not _holds_texts(kind):
                        raise self.no_text(name, NoText(str(kind)))
                names = [name for name in schema.names if self.is_kept(name)]
                bare = pa.schema([_bare(schema.field(n)) for n in names])
                batches = file.iter_batches(ROWS, columns=names, use_threads=False)
                groups = by_size(batches, lambda batch: 1 + batch.nbytes, CHUNK)
                # A part file may have no rows, as Spark writes them.
                for number, group in enumerate(groups if file.metadata.num_rows else [[]]):
                    table = pa.Table.from_batches(group, pa.schema(map(schema.field, names)))
                    yield self._chunk(number, table.cast(bare))
        except UnicodeDecodeError:
            raise self._error("got text that is not UTF-8, expected UTF-8.") from None
        except (pa.ArrowException, OSError):
            raise self._error("got another format or a broken file, expected Parquet.") from None

    def _chunk(self, number: int, table: pa.Table) -> Chunk:
        values = {name: table[name].to_pylist() for name in self.columns}
        texts, others = dict[str, list[list[str | None]]](), self._others(table.column_names)
        for name, of_rows in values.items():
            try:
                texts[name] = [texts_of(value) for value in of_rows]
            except NoText as problem:
                raise self.no_text(name, problem) from None
            others |= {f"{name}.{kept}" for value in of_rows for kept in kept_members(value)}
        return Chunk(
            number,
            len(table),
            {name: [*chain(*of_rows)] for name, of_rows in texts.items()},
            {name: [*map(len, of_rows)] for name, of_rows in texts.items()},
            frozenset(others),
            0,  # Parquet is UTF-8, which has no halves of surrogate pairs
            partial(_encode, table, values),
        )

    def join(self, parts: Iterable[Path], out: Path) -> None:
        """Write the rows of all parts in larger row groups."""
        tables = (pq.ParquetFile(part).read() for part in parts)
        first = next(tables)
        groups = by_size(chain([first], tables), lambda table: 1 + table.nbytes, ROW_GROUP)
        with pq.ParquetWriter(out, first.schema, compression="zstd") as writer:
            for group in groups:
                writer.write_table(pa.concat_tables(group))


FORMATS: dict[str, type[TextFile]] = {
    "text": Lines,
    "csv": Csv,
    "tsv": Csv,
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


def _encode(table: pa.Table, values: Mapping[str, list[Any]], texts: Texts) -> bytes:
    """The rows of a table with other texts, as a Parquet file of their own."""
    for name, new in texts.items():
        at, field = table.schema.get_field_index(name), table.schema.field(name)
        places = iter(new)
        rows = [with_texts(value, places) for value in values[name]]
        table = table.set_column(at, field, pa.array(rows, field.type))
    written = io.BytesIO()
    pq.write_table(table, written, compression="zstd")
    return written.getvalue()


def _holds_texts(kind: pa.DataType) -> bool:
    """Whether a type is of texts, of lists of them, or of chats."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if _is_list(kind):
        inner = kind.value_type
        if pa.types.is_struct(inner):
            fields = [field for field in inner if field.name in CONTENT]
            return bool(fields) and all(_holds_texts(field.type) for field in fields)
        return _holds_texts(inner)
    return kind in OF_TEXT


def _is_list(kind: pa.DataType) -> bool:
    lists = pa.ListType | pa.LargeListType | pa.ListViewType | pa.LargeListViewType
    return isinstance(kind, lists)


def _bare(field: pa.Field) -> pa.Field:
    """A field without what a writer may have noted at it and its children.

    Views become what they view. A dictionary becomes its values, as it also lists those of rows
    that were taken out of the file, and none of the new texts.
    """
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    kind = VIEWED.get(kind, kind)
    if pa.types.is_struct(kind):
        kind = pa.struct([_bare(child) for child in kind])
    elif pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        kind = pa.large_list(_bare(kind.value_field))
    elif _is_list(kind):
        kind = pa.list_(_bare(kind.value_field))
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(_bare(kind.value_field), kind.list_size)
    elif pa.types.is_map(kind):
        kind = pa.map_(_bare(kind.key_field), _bare(kind.item_field), kind.keys_sorted)
    return pa.field(field.name, kind, field.nullable)
