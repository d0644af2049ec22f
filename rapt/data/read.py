"""Read a table from the bytes of a file: columns of values, no matter what the format."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rapt.data.config import Format
from rapt.utils.errors import RaptError, not_allowed

# Column by name. Values are what the format knows: strings alone for csv and tsv.
Columns = Mapping[str, Sequence[Any] | pa.ChunkedArray]

MISSING = {"", "nan", "null"}
DELIMITERS = {"csv": ",", "tsv": "\t"}


def table(data: bytes, format: Format, where: str) -> Columns:
    """Read a file's content; errors name it by `where`.

    Raises:
        RaptError: Not UTF-8, not this format, ragged, or no rows; never with text of the file.
    """
    if format.type == "parquet":
        columns = _parquet(data, where)
    elif format.type == "jsonl":
        columns = _jsonl(_text(data, where), where)
    else:
        columns = _delimited(_text(data, where), format, where)
    if not columns or not len(next(iter(columns.values()))):
        raise RaptError(f"{where}: got no rows, expected one or more.")
    return columns


def strings(columns: Columns, name: str, key: str, where: str) -> list[str | None]:
    """One column as strings, null where there is no value.

    Raises:
        RaptError: There is no such column (`key` of params.yaml names it), or it holds lists.
    """
    values = column(columns, name, key, where)
    if any(isinstance(value, list | tuple | dict | bytes) for value in values):
        raise RaptError(f"{where}: {key}: got lists in column {name!r}, expected text or numbers.")
    return [None if _is_null(value) else str(value) for value in values]


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


def missing_column(key: str, name: str, columns: list[str]) -> str:
    """The line for a column that is not there.

    Where the first line does not read like column names it may be the first row of data, which no
    message may show.
    """
    if is_header(columns):
        return not_allowed(key, name, columns)
    return (
        f"{key}: got {name!r} and a first line that does not read like column names (not shown: "
        "it may be text), expected short names. Name the columns in the task's format."
    )


def is_header(names: Sequence[str]) -> bool:
    """Whether names read like column names: short, few words, no sentence, none twice."""
    return len(set(names)) == len(names) and all(
        len(name) <= 32 and len(name.split()) <= 3 and re.match(r"[^\W\d]", name) for name in names
    )


def column(columns: Columns, name: str, key: str, where: str) -> Sequence[Any]:
    """One column as it is.

    Raises:
        RaptError: There is no such column (`key` of params.yaml names it).
    """
    if name not in columns:
        raise RaptError(f"{where}: {missing_column(key, name, list(columns))}")
    found = columns[name]
    return found.to_pylist() if isinstance(found, pa.ChunkedArray) else found


def _is_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(word, str) and word and not any(map(str.isspace, word)) for word in value
    )


def is_missing(value: str | None) -> bool:
    """Whether a value of a column of classes is none: empty, or what pandas and R write for it."""
    return value is None or value.strip().lower() in MISSING


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RaptError(
            f"{where}: got a file that is not UTF-8 at byte {error.start}, expected UTF-8. "
            "Save it as UTF-8."
        ) from None


def _parquet(data: bytes, where: str) -> Columns:
    try:
        read = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        raise RaptError(
            f"{where}: got another format or a broken file, expected Parquet."
        ) from None
    return {name: read[name] for name in read.column_names}


def _jsonl(text: str, where: str) -> Columns:
    rows = []
    for number, line in enumerate(io.StringIO(text), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise RaptError(
                f"{where}: line {number}, column {error.colno}: got what is not JSON "
                f"({error.msg}), expected an object on each line."
            ) from None
        if not isinstance(row, dict):
            raise RaptError(
                f"{where}: line {number}: got no JSON object, expected one on each line."
            )
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _delimited(text: str, format: Format, where: str) -> Columns:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=DELIMITERS[format.type],
        quoting=csv.QUOTE_MINIMAL if format.quoted else csv.QUOTE_NONE,
        strict=True,
    )
    try:
        lines = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise RaptError(
            f"{where}: line {reader.line_num}: got {error}, expected {format.type}. Is `quoted` "
            "right in the task's format?"
        ) from None
    names = format.names
    if names is None:
        names, lines = (lines[0][1], lines[1:]) if lines else ([], [])
    if len(set(names)) < len(names):
        raise RaptError(f"{where}: got two columns of one name, expected a name for each.")
    lines = lines[format.skip_rows :]
    for number, row in lines:
        if len(row) != len(names):
            raise RaptError(
                f"{where}: line {number}: got {len(row)} fields, expected {len(names)}, one for "
                "each column. Is `quoted` right in the task's format?"
            )
    return {name: [row[i] for _, row in lines] for i, name in enumerate(names)}
