"""What people bring: each file gives the same rows to an experiment and to a release."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rapt.data import read
from rapt.data.config import Format
from rapt.release.formats import FORMATS
from rapt.utils.errors import RaptError

TEXTS = ["Grüße, all", "so; it goes"]
LABELS = ["1", "0"]
RAGGED = "id;text;label\n1;Grüße, all;1\n2;so; it goes;0\n"


def rows(delimiter: str, *, head: str = "text{}label", ends: str = "\n") -> str:
    """Two rows, with quotes around a text that holds the delimiter."""
    texts = [f'"{text}"' if delimiter in text else text for text in TEXTS]
    lines = [f"{text}{delimiter}{label}" for text, label in zip(texts, LABELS, strict=True)]
    return ends.join([head.format(delimiter), *lines, ""])


QUESTION = "What did you like most about the course?"
# name → the file's content, the options of its format, and the names of text and label.
FILES: dict[str, tuple[bytes, dict[str, Any], tuple[str, str]]] = {
    **{
        f"delimiter {name}": (rows(delimiter).encode(), {}, ("text", "label"))
        for name, delimiter in {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}.items()
    },
    **{
        f"line ends {ends!r}": (rows(",", ends=ends).encode(), {}, ("text", "label"))
        for ends in ("\n", "\r\n", "\r")
    },
    **{
        encoding: (rows(",").encode(encoding), {}, ("text", "label"))
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32")
    },
    **{
        f"{encoding} as named": (
            rows(",").encode(encoding),
            {"encoding": encoding},
            ("text", "label"),
        )
        for encoding in ("cp1252", "utf-16-le", "utf-16-be", "latin-1")
    },
    "a tab in .tsv": (rows("\t").encode(), {"type": "tsv"}, ("text", "label")),
    "a comma in .tsv": (rows(",").encode(), {"type": "tsv"}, ("text", "label")),
    "Excel's sep=": (f"sep=;\n{rows(';')}".encode(), {}, ("text", "label")),
    "blank lines before the header": (f"\n\r\n{rows(',')}".encode(), {}, ("text", "label")),
    "white space": (rows(",", head=" text {} label").encode(), {}, ("text", "label")),
    "a sentence": (rows(",", head=f"{QUESTION}{{}}1").encode(), {}, (QUESTION, "1")),
    "a sentence with commas": (
        rows(";", head="Did you, or not, like it?{}label").encode(),
        {},
        ("Did you, or not, like it?", "label"),
    ),
    "an index of pandas": (
        ',text,label\n0,"Grüße, all",1\n1,so; it goes,0\n'.encode(),
        {},
        ("text", "label"),
    ),
    "columns without names": (
        'text,label,,\n"Grüße, all",1,,\nso; it goes,0,,\n'.encode(),
        {},
        ("text", "label"),
    ),
    "no header": (rows(",").split("\n", 1)[1].encode(), {"header": False}, ("1", "2")),
    "names": (rows(",").split("\n", 1)[1].encode(), {"names": ["a", "b"]}, ("a", "b")),
    "a delimiter as named": (rows("^").encode(), {"delimiter": "^"}, ("text", "label")),
    "JSON with CR": (
        "\r".join(
            json.dumps({"text": t, "label": n}) for t, n in zip(TEXTS, LABELS, strict=True)
        ).encode(),
        {"type": "jsonl"},
        ("text", "label"),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_both_readers_read_it(tmp_path: Path, name: str) -> None:
    content, options, (text, label) = FILES[name]
    format = Format.model_validate({"type": "csv", **options})
    columns = read.table(content, format, "f")
    assert read.strings(columns, text, "text", "f") == TEXTS
    assert read.strings(columns, label, "label", "f") == LABELS
    path = tmp_path / "in"
    path.write_bytes(content)
    (chunk,) = FORMATS[format.type](path, (text,), (label,), format).chunks()
    assert chunk.texts[text] == TEXTS
    written = chunk.encode({text: [value.swapcase() for value in TEXTS]})
    again = read.table(written, format.model_copy(update={"encoding": None}), "f")
    assert read.strings(again, text, "text", "f") == [value.swapcase() for value in TEXTS]
    assert read.strings(again, label, "label", "f") == LABELS


@pytest.mark.parametrize(
    ("options", "content", "line"),
    [
        ({}, RAGGED.encode(), "f: line 3: got 4 fields, expected 3, one for each column, with ';'"),
        ({"encoding": "cp1252"}, b"text\nfine\nbad \x81\n", "f: line 3: got another encoding, exp"),
        ({"encoding": "utf-16-le"}, b"t\0\n\0\0\xd8", "f: line 2: got another encoding"),
        ({}, b"text,text\na,b\n", "f: text: got two columns 'text', expected one. Rename one."),
    ],
)
def test_what_cannot_be_read_is_one_line(
    options: dict[str, Any], content: bytes, line: str
) -> None:
    format = Format.model_validate({"type": "csv", **options})
    with pytest.raises(RaptError) as raised:
        read.strings(read.table(content, format, "f"), "text", "text", "f")
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"delimiter": ",,"}, "got ',,', expected one character"),
        ({"delimiter": '"'}, "expected one character"),
        ({"encoding": "utf-9"}, "got 'utf-9', expected the name of an encoding"),
        ({"encoding": "hex"}, "expected the name of an encoding"),
    ],
)
def test_a_wrong_option_is_said(given: dict[str, str], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        Format.model_validate({"type": "csv", **given})


def released(path: Path, kind: Any, *columns: str, keep: tuple[str, ...] | None = None) -> Any:
    """The rows of a file, each text in another case, as they are written; and what else leaves."""
    (chunk,) = FORMATS[kind](path, columns, keep, Format(type=kind)).chunks()
    swapped: Mapping[str, list[str | None]] = {
        name: [text and text.swapcase() for text in texts] for name, texts in chunk.texts.items()
    }
    return chunk.encode(swapped), chunk


def test_values_of_json_keep_their_source_text(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    chat = '[{"role" : "user", "content":"Hi", "w": 1.50}, {"content": [{"text": "Yo"}, null]}]'
    path.write_text(
        '{"n": 12345678901234567.125, "p": 19.90, "text": "Anna", "x": 1e999, "p": 0x}\n'.replace(
            "0x", "1E5"
        )
        + f'{{"text":"Bob","chat":{chat}, "u": "\\u00e9\\ud83d"}}\n'
        + '{"text": "Carl", "text": "Dora"}\n{"text": NaN}\n'
    )
    written, chunk = released(path, "jsonl", "text", "chat")
    new = chat.replace('"Hi"', '"hI"').replace('"Yo"', '"yO"')
    assert written.decode().splitlines() == [
        '{"n": 12345678901234567.125, "p": 19.90, "text": "aNNA", "x": 1e999, "p": 1E5}',
        f'{{"text":"bOB", "chat":{new}, "u": "\\u00e9\\ud83d"}}',
        '{"text": "cARL", "text": "dORA"}',
        '{"text": NaN}',
    ]
    assert chunk.counts == {"text": [1, 1, 2, 1], "chat": [1, 3, 1, 1]}
    assert chunk.others == {"n", "p", "x", "u", "chat.role", "chat.w"}


def test_half_of_a_surrogate_pair_is_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a\\ud83d b\\ude00", "tags": ["\\ud83d"]}\n')
    columns = read.table(path.read_bytes(), Format(type="jsonl"), "f")
    assert columns == {"text": ["a\ufffd b\ufffd"], "tags": [["\ufffd"]]}
    assert columns.halves == 3
    _, chunk = released(path, "jsonl", "text", "tags")
    assert chunk.texts == {"text": ["a\ufffd b\ufffd"], "tags": ["\ufffd"]}
    assert chunk.halves == 3


ROLE = pa.struct({"role": pa.string(), "content": pa.string()})


@pytest.mark.parametrize(
    ("kind", "values", "after"),
    [
        (pa.binary(), [b"Anna", None], [b"aNNA", None]),
        (pa.large_binary(), [b"Anna", None], [b"aNNA", None]),
        (pa.string_view(), ["Anna", None], ["aNNA", None]),
        (pa.binary_view(), [b"Anna", None], [b"aNNA", None]),
        (pa.large_string(), ["Anna", ""], ["aNNA", ""]),
        (pa.list_(pa.string()), [["Anna", None], []], [["aNNA", None], []]),
        (pa.large_list(pa.string()), [["Anna"], None], [["aNNA"], None]),
        (
            pa.list_(ROLE),
            [[{"role": "user", "content": "Anna"}], None],
            [[{"role": "user", "content": "aNNA"}], None],
        ),
    ],
    ids=str,
)
def test_parquet_of_every_type_of_text(
    tmp_path: Path, kind: pa.DataType, values: list[Any], after: list[Any]
) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"x": pa.array(values, kind), "n": [1, 2]}), path)
    written, chunk = released(path, "parquet", "x")
    (tmp_path / "out.parquet").write_bytes(written)
    out = pq.ParquetFile(tmp_path / "out.parquet").read()
    assert out["x"].to_pylist() == after
    assert out["n"].to_pylist() == [1, 2]
    assert chunk.others == ({"n", "x.role"} if "struct" in str(kind) else {"n"})
    if "list" not in str(kind):
        columns = read.table(path.read_bytes(), Format(type="parquet"), "f")
        assert read.strings(columns, "x", "text", "f")[0] == "Anna"
