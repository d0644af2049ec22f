"""Read a table from the bytes of a file: columns of values, no matter what the format."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from rapt import param_errors
from rapt.data.config import Format
from rapt.data.lines import Delimited, TextLines, without_halves
from rapt.data.nested import is_missing as is_missing_value
from rapt.utils.errors import RaptError, did_you_mean, one_of

TEXT = "text"  # the name of the one column that lines of text have
MISSING = {"", "nan", "null"}


class Columns(dict[str, Sequence[Any] | pa.ChunkedArray]):
    """Column by name. Values are what the format knows: strings alone for text, csv and tsv.

    Attributes:
        twice: names that several columns have; only the last of them is here.
        halves: number of halves of surrogate pairs that became U+FFFD.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any] | pa.ChunkedArray] | None = None):
        super().__init__(columns or {})
        self.twice = set[str]()
        self.halves = 0


def table(data: bytes, format: Format, where: str) -> Columns:
    """Read a file's content; errors name it by `where`.

    Raises:
        RaptError: Not UTF-8, not this format, ragged, or no rows; never with text of the file.
    """
    return tables({where: data}, format)


def tables(parts: Mapping[str, bytes], format: Format) -> Columns:
    """Read the parts of a table, by the names that errors have for them, as `table` does.

    A part may have no rows, as Spark writes them. Columns are those of the first part with rows.
    """
    read = {where: _read(data, format, where) for where, data in parts.items()}
    read = {where: columns for where, columns in read.items() if _rows(columns)}
    if not read:
        raise RaptError(f"{next(iter(parts))}: got no rows, expected one or more.")
    where, joined = next(iter(read.items()))
    for other, columns in list(read.items())[1:]:
        if set(columns) != set(joined):
            raise RaptError(f"{other}: got other columns than {where}, expected the same.")
        joined.halves += columns.halves
        for name, values in columns.items():
            joined[name] = [*_values(joined[name]), *_values(values)]
    return joined


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values()), []))


def _values(values: Sequence[Any] | pa.ChunkedArray) -> Sequence[Any]:
    return values.to_pylist() if isinstance(values, pa.ChunkedArray) else values


def _read(data: bytes, format: Format, where: str) -> Columns:
    if format.type == "parquet":
        columns = _parquet(data, where)
    else:
        lines = TextLines(io.BytesIO(data), format.encoding, where)
        if format.type == "jsonl":
            columns = _jsonl(lines, where)
        elif format.type == "text":
            columns = Columns({TEXT: [line.rstrip("\r\n") for line in lines]})
        else:
            columns = _delimited(lines, format, where)
    return columns


def file_format(kind: str, **options: Any) -> Format:
    """Make the format of a file from the options of a command: header, delimiter, encoding.

    Raises:
        RaptError: one is not allowed, or this kind of file has no such thing.
    """
    of_others = {"header", "delimiter"} if kind not in ("csv", "tsv") else set()
    of_others |= {"encoding"} if kind == "parquet" else set()
    for key in sorted(of_others):
        if options.get(key) not in (None, True):
            name = "no-header" if key == "header" else key
            raise RaptError(f"--{name}: got it with format {kind}, expected it with csv or tsv.")
    content = {"type": kind} | {key: one for key, one in options.items() if one is not None}
    try:
        return Format.model_validate(content)
    except ValidationError as error:
        raise RaptError("\n".join(param_errors.lines(error, content, Format))) from None


def strings(columns: Columns, name: str, key: str, where: str) -> list[str | None]:
    """One column as strings, null where there is no value.

    Raises:
        RaptError: There is no such column (`key` of params.yaml names it), or it holds lists.
    """
    values = [_as_text(value) for value in column(columns, name, key, where)]
    if any(isinstance(value, list | tuple | dict) for value in values):
        raise RaptError(f"{where}: {key}: got lists in column {name!r}, expected text or numbers.")
    if any(isinstance(value, bytes) for value in values):
        raise RaptError(f"{where}: {key}: got bytes in column {name!r}, expected UTF-8.")
    return [None if is_missing_value(value) else str(value) for value in values]


def word_lists(columns: Columns, name: str, key: str, where: str) -> list[list[str] | None]:
    """One column of lists of words, null where there is none.

    Raises:
        RaptError: There is no such column (`key` of params.yaml names it), or it holds anything
            else than lists of words without white space.
    """
    values = column(columns, name, key, where)
    if others := sum(not _is_words(value) for value in values if value is not None):
        raise RaptError(
            f"{where}: {key}: got something else in {others} of {len(values)} rows of column "
            f"{name!r}, expected a list of words without white space in each."
        )
    return [value if value is None else list(value) for value in values]


def missing_column(key: str, name: str, columns: Sequence[str]) -> str:
    """The line for a column that is not there, with the nearest of those that are."""
    near = get_close_matches(name, filter(reads_like_a_name, columns), n=1, cutoff=0.4)
    return f"{key}: got {name!r}, expected {shown_columns(columns)}.{did_you_mean(near)}"


def shown_columns(columns: Sequence[str]) -> str:
    """The columns of a file as a message may show them.

    The first line of a file without a header is its first row, which no message may show. So
    columns are listed only if all read like names.
    """
    named = [column for column in columns if column]
    if all(map(reads_like_a_name, named)):
        return one_of(named)
    return (
        f"one of the {len(columns)} columns that the first line names (not shown: it may be text; "
        "for a file without a header give --no-header)"
    )


def reads_like_a_name(name: str) -> bool:
    """Whether a text reads like the name of a column: short, few words, no sentence."""
    return len(name) <= 32 and len(name.split()) <= 3 and bool(re.match(r"[^\W\d]", name))


def column(columns: Columns, name: str, key: str, where: str) -> Sequence[Any]:
    """One column as it is.

    Raises:
        RaptError: There is no such column (`key` of params.yaml names it).
    """
    if name not in columns:
        raise RaptError(f"{where}: {missing_column(key, name, list(columns))}")
    if name in columns.twice:
        raise RaptError(f"{where}: {key}: got two columns {name!r}, expected one. Rename one.")
    return _values(columns[name])


def _is_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(word, str) and word and not any(map(str.isspace, word)) for word in value
    )


def is_missing(value: str | None) -> bool:
    """Whether a value of a column of classes is none: empty, or what pandas and R write for it."""
    return value is None or value.strip().lower() in MISSING


def _as_text(value: Any) -> Any:
    """Decode bytes, as which Spark and ClickHouse write text; keep others, and what is no text."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _parquet(data: bytes, where: str) -> Columns:
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        raise RaptError(
            f"{where}: got another format or a broken file, expected Parquet."
        ) from None
    columns = Columns(dict(zip(table.column_names, table.columns, strict=True)))
    columns.twice = {name for name in columns if table.column_names.count(name) > 1}
    return columns


def _jsonl(lines: Iterable[str], where: str) -> Columns:
    columns = Columns()

    def whole(value: Any) -> Any:
        """Return a value without halves of surrogate pairs, and count them."""
        if isinstance(value, list):
            return [whole(inner) for inner in value]
        if not isinstance(value, str):
            return value
        value, halves = without_halves(value)
        columns.halves += halves
        return value

    rows = [row for _, _, row in objects(lines, where)]
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = [whole(row.get(name)) for row in rows]
    return columns


def objects(lines: Iterable[str], where: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield each line of JSON that is not blank: its number, itself, and its object.

    Raises:
        RaptError: a line is no object; never with text of it.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:  # whose messages may quote the line
            at = f", column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise RaptError(
                f"{where}: line {number}{at}: got what is not JSON, expected an object on each "
                "line."
            ) from None
        if not isinstance(value, dict):
            raise RaptError(
                f"{where}: line {number}: got no JSON object, expected one on each line."
            )
        yield number, line, value


def _delimited(lines: Iterable[str], format: Format, where: str) -> Columns:
    file = Delimited(lines, format, where)
    rows = [row for _, row in file.records(format.skip_rows)]
    columns = Columns()
    for place, name in enumerate(file.names):
        if name in columns:
            columns.twice.add(name)
        columns[name] = [row[place] for row in rows]
    return columns
