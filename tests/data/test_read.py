import json
from pathlib import Path

import pyarrow as pa
import pytest

from rapt.data import read
from rapt.data.config import Format
from rapt.utils import files
from rapt.utils.errors import RaptError

SECRET = "confidential"


def format(type: str, **changes: object) -> Format:
    content = {"type": type, "names": None, "skip_rows": 0, "quoted": type == "csv"}
    return Format.model_validate({**content, **changes})


def test_all_formats_hold_the_same(tmp_path: Path) -> None:
    rows = [{"text": 'so, "good"', "n": 1}, {"text": "ünd\u2028bad", "n": 2}]
    files.write_parquet(tmp_path / "x.parquet", pa.Table.from_pylist(rows))
    written = {
        "csv": 'text,n\n"so, ""good""",1\r\nünd\u2028bad,2\r\n'.encode(),
        "tsv": '\ufefftext\tn\nso, "good"\t1\nünd\u2028bad\t2\n\n'.encode(),
        "jsonl": "\n".join(json.dumps(row) for row in rows).encode(),
        "parquet": (tmp_path / "x.parquet").read_bytes(),
    }
    for type, data in written.items():
        columns = read.table(data, format(type), type)
        assert read.strings(columns, "text", "text", type) == [row["text"] for row in rows], type
        assert read.strings(columns, "n", "label", type) == ["1", "2"], type


def test_a_file_without_a_header_line() -> None:
    columns = read.table(b"a\tb\nc\td\n", format("tsv", names=["x", "y"]), "f")
    assert columns == {"x": ["a", "c"], "y": ["b", "d"]}


def test_lines_after_the_header_are_skipped() -> None:
    columns = read.table(b"x\ty\ndiscrete\tstring\na\tb\n", format("tsv", skip_rows=1), "f")
    assert columns == {"x": ["a"], "y": ["b"]}


def test_nulls_are_no_text() -> None:
    columns = read.Columns({"x": [None, float("nan"), "None", "nan", 0]})
    assert read.strings(columns, "x", "text", "f") == [None, None, "None", "nan", "0"]


@pytest.mark.parametrize(
    ("data", "how", "line"),
    [
        (b"", format("csv"), "f: got no rows"),
        (b"text,label\n", format("csv"), "f: got no rows"),
        (b"", format("jsonl"), "f: got no rows"),
        (b"a,b\nconfidential,1,2\n", format("csv"), "f: line 2: got 3 fields, expected 2, "),
        (b'\n["confidential"]\n', format("jsonl"), "f: line 2: got no JSON object, expected"),
        (b"PAR1 confidential", format("parquet"), "f: got another format or a broken file"),
    ],
)
def test_a_bad_file_is_one_line_without_its_text(data: bytes, how: Format, line: str) -> None:
    with pytest.raises(RaptError) as error:
        read.table(data, how, "f")
    assert str(error.value).startswith(line)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_column_has_a_nearest_match() -> None:
    with pytest.raises(RaptError) as error:
        read.strings(
            read.Columns({"Is retweet": ["x"], "Content": ["x"]}), "content", "tasks.a.text", "f"
        )
    assert str(error.value) == (
        "f: tasks.a.text: got 'content', expected one of Content, Is retweet. "
        "Did you mean 'Content'?"
    )


@pytest.mark.parametrize(
    "first_line",
    [["1", "confidential"], ["a confidential sentence of five", "x"], ["x", "confidential" * 3]],
)
def test_a_first_line_of_data_is_not_shown(first_line: list[str]) -> None:
    with pytest.raises(RaptError) as error:
        read.strings(read.Columns({name: ["x"] for name in first_line}), "text", "text", "f")
    assert SECRET not in str(error.value)
    assert "(not shown: it may be text;" in str(error.value)


def test_a_column_of_lists_is_refused() -> None:
    with pytest.raises(RaptError, match="got lists in column 'x', expected text"):
        read.strings(read.Columns({"x": [["confidential"]]}), "x", "text", "f")
