import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rapt.data.config import Format
from rapt.release import formats
from rapt.release.formats import FORMATS, STREAM, TextFile, format_name
from rapt.release.parts import Unreachable
from rapt.utils.errors import RaptError

QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
FIELD = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
SECRET = "Zanzibar"
ARROW = b"ARROW:schema"  # where Parquet has the schema of Arrow, by base64


def twice() -> bytes:
    """A Parquet file with two columns of one name."""
    written = io.BytesIO()
    pq.write_table(pa.table([["b"]] * 3, ["text", "a", "a"]), written)
    return written.getvalue()


def source(
    name: Any, path: Path, *columns: str, keep: tuple[str, ...] | None = None, **options: Any
) -> TextFile:
    format = Format(type=name, **options)
    return FORMATS[name](path, columns or ("text",), keep, format)


def rewritten(source: TextFile, change: Callable[[str], str], folder: Path) -> bytes:
    """The file with every text changed, part by part."""
    parts = []
    for chunk in source.chunks():
        texts = {
            name: [None if value is None else change(value) for value in values]
            for name, values in chunk.texts.items()
        }
        parts.append(folder / f"part{chunk.number}")
        parts[-1].write_bytes(chunk.encode(texts))
    source.join(parts, folder / "whole")
    return (folder / "whole").read_bytes()


def upper(text: str) -> str:
    return text.swapcase()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "CHUNK", 20)
    monkeypatch.setattr(formats, "ROWS", 2)


@QUICK
@given(
    st.lists(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]))),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.booleans(),
)
def test_lines_keep_their_ends(
    tmp_path: Path, lines: list[str], end: str, bom: str, ended: bool
) -> None:
    if lines and lines[0].startswith("\ufeff"):
        lines[0] = ""
    path = tmp_path / "in.txt"
    path.write_bytes((bom + end.join(lines) + end * ended).encode())
    expected = (bom + end.join(map(upper, lines)) + end * ended).encode()
    if "".join(lines) or ended:
        assert rewritten(source("text", path), upper, tmp_path) == expected


@QUICK
@given(
    st.lists(st.tuples(FIELD, FIELD, FIELD), min_size=1),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["csv", "tsv"]),
)
def test_csv_values_stay(
    tmp_path: Path, rows: list[tuple[str, ...]], end: str, bom: str, quoting: Any, name: str
) -> None:
    delimiter = {"csv": ",", "tsv": "\t"}[name]
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(
        [("id", "text", "note"), *rows]
    )
    path = tmp_path / "in.csv"
    header = delimiter.join(["id", "text", "note"])
    body = written.getvalue().split("\r\n", 1)[1]
    path.write_bytes((bom + header + end + body).encode())
    after = rewritten(source(name, path), upper, tmp_path).decode()
    assert after.startswith(bom + header + end)
    assert after.endswith(end)
    read = list(csv.reader(io.StringIO(after.removeprefix(bom), newline=""), delimiter=delimiter))
    assert read[1:] == [[a, upper(text), c] for a, text, c in rows]


def test_csv_of_one_column_keeps_empty_values(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text('text\na\n\n""\n\nb\n')
    assert rewritten(source("csv", path), upper, tmp_path) == b'text\nA\n""\n""\n""\nB\n'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@QUICK
@given(st.lists(st.tuples(st.none() | st.text(), JSON), min_size=1), st.booleans())
def test_jsonl_values_stay(tmp_path: Path, rows: list[tuple[str | None, Any]], ascii: bool) -> None:
    path = tmp_path / "in.jsonl"
    records = [{"a": other, "text": text, "b": {"text": text}} for text, other in rows]
    try:
        content = "".join(json.dumps(r, ensure_ascii=ascii) + "\n" for r in records).encode()
    except UnicodeEncodeError:
        content = "".join(json.dumps(r) + "\n" for r in records).encode()
    path.write_bytes(content)
    after = rewritten(source("jsonl", path), upper, tmp_path).decode()
    expected = [r | {"text": None if r["text"] is None else upper(r["text"])} for r in records]
    assert [json.loads(line) for line in after.split("\n")[:-1]] == expected


def test_a_field_that_a_record_lacks_stays_away(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n\n{"other": 1}\n{"text": null}\n')
    after = rewritten(source("jsonl", path), upper, tmp_path)
    assert after == b'{"text": "A"}\n{"other": 1}\n{"text": null}\n'


@QUICK
@given(
    st.lists(
        st.tuples(st.none() | FIELD, st.none() | st.integers(-5, 5), st.lists(st.floats())),
        min_size=1,
    ),
    st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]),
)
def test_parquet_values_and_types_stay(
    tmp_path: Path, rows: list[tuple[Any, ...]], kind: pa.DataType
) -> None:
    path = tmp_path / "in.parquet"
    text, number, floats = zip(*rows, strict=True)
    table = pa.table(
        {
            "n": pa.array(number, pa.int8()),
            "text": pa.array(text, pa.string()).cast(kind),
            "f": pa.array(floats, pa.list_(pa.float64())),
        }
    )
    pq.write_table(table, path)
    (tmp_path / "after").write_bytes(rewritten(source("parquet", path), upper, tmp_path))
    after = pq.ParquetFile(tmp_path / "after").read()
    assert after.column_names == ["n", "text", "f"]
    assert after["text"].to_pylist() == [None if t is None else upper(t) for t in text]
    assert after.schema.field("text").type == (
        pa.string() if pa.types.is_dictionary(kind) else kind
    )
    assert after["n"].equals(table["n"])
    assert after.schema.field("f").type == table.schema.field("f").type
    assert repr(after["f"].to_pylist()) == repr(table["f"].to_pylist())


def test_parquet_metadata_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    noted = pa.field("x", pa.int8(), metadata={"note": SECRET})
    fields = [
        pa.field("text", pa.string(), metadata={"note": SECRET}),
        ("rest", pa.struct([noted])),
        ("pair", pa.list_(noted, 2)),
        ("map", pa.map_(pa.string(), noted)),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
    ]
    row = {"text": "a", "rest": {"x": 1}, "pair": [1, 2], "map": [("k", 1)], "kind": "kept"}
    rows = [row | {"kind": SECRET}, *[row] * 10]
    table = pa.Table.from_pylist(rows, pa.schema(fields, {"note": SECRET}))[1:]
    assert SECRET in table["kind"].chunk(0).dictionary.to_pylist()
    pq.write_table(table, path)
    assert SECRET.encode() in path.read_bytes()
    after = rewritten(source("parquet", path), upper, tmp_path)
    noted_there = base64.b64decode(pq.ParquetFile(io.BytesIO(after)).metadata.metadata[ARROW])
    assert SECRET.encode() not in after + noted_there
    assert pq.read_table(io.BytesIO(after)).to_pylist() == [row | {"text": "A"}] * 10


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet"])
def test_other_columns_can_be_dropped(tmp_path: Path, name: str) -> None:
    path = tmp_path / "in"
    table = pa.table({"name": [SECRET] * 4, "b": ["b"] * 4, "text": ["a"] * 4})
    if name == "parquet":
        pq.write_table(table, path)
    elif name == "csv":
        path.write_text("name,b,text\n" + f"{SECRET},b,a\n" * 4)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    reader = source(name, path, "text", "b", keep=())
    after = rewritten(reader, upper, tmp_path)
    assert SECRET.encode() not in after
    assert {name for chunk in reader.chunks() for name in chunk.others} == set()
    kept = source(name, path)
    assert {name for chunk in kept.chunks() for name in chunk.others} == {"name", "b"}
    if name == "csv":
        assert after == b"b,text\n" + b"B,A\n" * 4


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text", b"fine\nZanzibar \xff\n", "line 2: got another encoding"),
        ("csv", b"text\nfine\nZanzibar \xff\n", "line 3: got another encoding"),
        ("csv", "text\nZanzibar\n".encode("utf-16-le"), "line 1: got a NUL character, expected"),
        ("csv", "text\nZanzibar\n".encode("utf-16-be"), "looks like UTF-16: set encoding as"),
        ("csv", "text\nZanzibar\n".encode("utf-32-le"), "looks like UTF-32: set encoding as"),
        ("text", b"fine\nZanzi\0bar a\0\n", "line 2: got a NUL character"),
        ("csv", b"txet,b\nZanzibar,b\n", "column: got 'text', expected one of b, txet. Did you"),
        (
            "csv",
            b"I went to Zanzibar on monday,1\nb,2\n",
            "first line names (not shown: it may be text;",
        ),
        ("csv", b"text,text\nZanzibar,b\n", "column: got two columns 'text', expected one"),
        ("csv", b"text,b\nfine,1\nZanzibar\n", "line 3: got 1 fields, expected 2, "),
        ("csv", b'text,b\n"Zanzibar" x,b\n', "line 2: "),
        (
            "csv",
            b'text,b\n"Zanzibar',
            "line 2: got unexpected end of data, expected a record with ','",
        ),
        ("jsonl", b'{"txet": "Zanzibar"}\n', "column: got 'text', expected txet. Did you mean"),
        (
            "jsonl",
            b'{"text": "a"}\n{"text": Zanzibar}\n',
            "line 2, column 10: got what is not JSON, expected",
        ),
        ("jsonl", b'{"text": "\\Zanzibar"}\n', "line 1, column 11: got what is not JSON, expected"),
        ("jsonl", b"[" * 100_000, "line 1: got what is not JSON, expected"),
        ("jsonl", b'["Zanzibar"]\n', "line 1: got no JSON object, expected"),
        (
            "jsonl",
            b'{"text": {"content": "Zanzibar"}}\n',
            "line 1: got a dict in column 'text', expected text, null, a list of texts",
        ),
        ("parquet", b"Zanzibar", "got another format or a broken file, expected"),
        ("parquet", b"", "got another format or a broken file, expected"),
        ("parquet", twice(), "keep: got two columns 'a', expected one. Rename one."),
    ],
)
def test_bad_input_is_one_line_without_text(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / "in"
    path.write_bytes(content)
    with pytest.raises(RaptError) as error:
        list(source(name, path).chunks())
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)
    assert "anzibar" not in str(error.value)


@pytest.mark.parametrize("encoding", ["idna", "punycode", "utf-16"])
def test_an_encoding_that_does_not_read_the_file_is_one_line(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text(f"{SECRET}\n")
    with pytest.raises(RaptError) as error:
        list(source("text", path, encoding=encoding).chunks())
    assert f"got {encoding!r}, which does not read this file" in str(error.value)
    assert SECRET not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("values", [[1, 2], [[1]], [b"\xff"], [{"content": "a"}]])
def test_parquet_of_another_type_is_refused(tmp_path: Path, values: list[Any]) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": values, "b": ["a"] * len(values)}), path)
    with pytest.raises(RaptError, match=r"got .* in column 'text', expected text, null"):
        list(source("parquet", path).chunks())
    with pytest.raises(RaptError, match="Did you mean 'text'"):
        list(source("parquet", path, "txt").chunks())


@pytest.mark.parametrize("name", ["text", "csv", "tsv"])
def test_a_very_long_line_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "in"
    path.write_text("text\n" + "x" * 10_000_000 + "\n")
    lengths = [len(t or "") for c in source(name, path).chunks() for t in c.texts["text"]]
    assert lengths[-1] == 10_000_000


def test_memory_holds_a_chunk_not_a_file(tmp_path: Path) -> None:
    """Chunks arrive while the file is still being read."""
    path = tmp_path / "in.csv"
    path.write_text("text\n" + "a word\n" * 1000)
    chunks = source("csv", path).chunks()
    assert len(next(chunks).texts["text"]) < 10


@pytest.mark.parametrize(
    ("path", "out", "given", "name"),
    [
        ("a.csv", "b.csv", None, "csv"),
        ("a.CSV", "-", None, "csv"),
        ("-", "b.jsonl", None, "jsonl"),
        ("-", "-", None, "text"),
        ("a.pq", "b.parquet", None, "parquet"),
        ("a.data", "b", "tsv", "tsv"),
        ("a.txt", "b", None, "text"),
    ],
)
def test_the_format_by_suffix_or_name(path: str, out: str, given: str | None, name: str) -> None:
    assert format_name(Path(path), Path(out), given) == name


@pytest.mark.parametrize(
    ("path", "out", "given", "message"),
    [
        ("a.csv", "b.jsonl", None, "b.jsonl: got jsonl, expected csv"),
        (
            "a.doc",
            "b.doc",
            None,
            "format: got none, and none known by the suffix '.doc', expected one of csv",
        ),
        ("a.csv", "b.csv", "cvs", "Did you mean 'csv'"),
    ],
)
def test_formats_that_do_not_fit(path: str, out: str, given: str | None, message: str) -> None:
    with pytest.raises(RaptError, match=message):
        format_name(Path(path), Path(out), given)


def test_what_cannot_be_read_now_may_be_read_later(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="got is a directory, expected a file to read"):
        list(source("text", tmp_path).chunks())


def test_parquet_is_not_read_from_a_stream() -> None:
    with pytest.raises(RaptError, match="stdin: format: got parquet for a stream, expected a file"):
        list(source("parquet", STREAM).chunks())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_digest_is_of_all_that_is_read(kind: str, tmp_path: Path) -> None:
    """The file's sha256 where it is read in order; of Parquet that of the columns read."""
    rows = [{"text": f"a {number}", "other": "b"} for number in range(3_000)]
    path = tmp_path / f"in.{kind}"

    def write(rows: list[dict[str, str]]) -> None:
        lines = {
            "text": [row["text"] for row in rows],
            "csv": ["text,other", *(",".join(row.values()) for row in rows)],
            "tsv": ["text\tother", *("\t".join(row.values()) for row in rows)],
            "jsonl": list(map(json.dumps, rows)),
        }
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1_000)
        else:
            path.write_text("\n".join(lines[kind]) + "\n")

    def digest() -> str | None:
        source = FORMATS[kind](path, format=Format(type=kind))  # type: ignore[arg-type]
        chunks = source.chunks()
        assert next(chunks).size and source.digest is None
        list(chunks)
        return source.digest

    write(rows)
    first = digest()
    assert first == digest()
    assert (first == hashlib.sha256(path.read_bytes()).hexdigest()) == (kind != "parquet")
    write([*rows[:-1], {"text": "a 2998", "other": "b"}])
    assert digest() != first
