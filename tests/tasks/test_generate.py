"""Sources and texts written of them, on rows whose faults are known and on real WebNLG."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rapt.data.prepare import identities, prepare
from rapt.tasks.base import Task
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.data.conftest import make_task, write
from tests.data.conftest import workspace as workspace

ONE = ["Aarhus_Airport | city | Aarhus"]


def generate(files: dict[str, str] | None = None, **changes: Any) -> Task:
    content = {"type": "jsonl", "kind": "generate", "text": "input", "references": "texts"}
    return make_task(files or {"train": "train.jsonl", "test": "test.jsonl"}, **content | changes)


def row(source: Any = ONE, texts: Any = ("It is in Aarhus.", "Aarhus has it."), **more: Any) -> str:
    return json.dumps({"input": source, "texts": texts, **more})


def prepared(train: list[str], test: list[str], **changes: Any) -> dict[str, list[dict[str, Any]]]:
    write("train.jsonl", train)
    write("test.jsonl", test)
    tables = prepare("mine", generate(**changes), 0).tables
    return {split: table.to_pylist() for split, table in tables.items()}


def test_a_training_row_for_each_text_and_a_test_row_for_each_source() -> None:
    other = ['Bionico | country | "Mexico"', "Bionico | dish_variation | Ice_cream"]
    found = prepared([row(seen=True)], [row(other, ["A.", "B.", "C."], seen=False)], group="seen")
    source = "Aarhus Airport | city | Aarhus"
    assert [(one["text"], one["text_pair"]) for one in found["train"]] == [
        (source, "It is in Aarhus."),
        (source, "Aarhus has it."),
    ]
    (test,) = found["test"]
    assert test["text"] == "Bionico | country | Mexico && Bionico | dish variation | Ice cream"
    assert (test["text_pair"], test["references"]) == (None, ["A.", "B.", "C."])
    assert test["group"] == "not-seen"


def test_the_published_xml_becomes_the_files_of_the_presets() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/data.md").read_text(), re.M | re.S)
    assert len(code.splitlines()) <= 25
    entry = (
        '<entry category="{}"><originaltripleset><otriple>x | y | z</otriple></originaltripleset>'
        "<modifiedtripleset><mtriple>A_B | p | C</mtriple><mtriple>C | q | é</mtriple>"
        "</modifiedtripleset><lex>One of {} &amp; co.</lex><lex>Two.</lex></entry>"
    )
    texts = {
        "train/1triples/a.xml": ["Food", "City"],
        "train/2triples/b.xml": ["Airport"],
        "test/testdata_with_lex.xml": ["Airport", "Artist"],
        "test/testdata_unseen_with_lex.xml": ["Artist"],
    }
    for name, categories in texts.items():
        entries = "".join(entry.format(category, category) for category in categories)
        path = Path("webnlg_challenge_2017", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<benchmark><entries>{entries}</entries></benchmark>", encoding="utf-8")
    exec(code, {})
    found = {
        split: pq.read_table(f"external/webnlg/{split}.parquet").to_pylist()
        for split in ("train", "test")
    }
    assert [one["references"][0] for one in found["train"]] == [
        "One of Food & co.", "One of City & co.", "One of Airport & co."
    ]  # fmt: skip
    assert found["train"][0]["input"] == ["A_B | p | C", "C | q | é"]
    assert [one["seen"] for one in found["test"]] == [True, False]


def test_a_source_of_both_splits_is_tested_alone_whatever_was_written() -> None:
    found = prepared([row(), row(["a | b | c"])], [row(texts=["Other words."])])
    assert {one["text"] for one in found["train"]} == {"a | b | c"}
    task = generate()
    tables = prepare("mine", task, 0).tables
    train, test = (set(identities(tables[split], task.compared)) for split in ("train", "test"))
    assert not train & test


def test_a_source_may_be_any_text_unless_its_entities_are_protected() -> None:
    assert prepared([row("one two")], [row("three")])["train"][0]["text"] == "one two"
    with pytest.raises(RaptError, match=r"protect: got something else in 1 of 1 rows, expected SU"):
        prepared([row("one two")], [row()], protect="entities")


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        (row(source=[]), r"tasks.mine.text: got something else in 1 of 2 rows, expected a text"),
        (row(source=["a | b | c", None]), r"tasks.mine.text: got something else"),
        (row(texts=[]), r"tasks.mine.references: got something else in 1 of 2 rows, expected a l"),
        (row(texts="SECRET"), r"tasks.mine.references: got something else"),
        (row(texts=["  "]), r"tasks.mine.references: got something else"),
    ],
)
def test_a_bad_row_is_refused_in_one_line(bad: str, line: str) -> None:
    with pytest.raises(RaptError, match=line) as error:
        prepared([row(["SECRET | a | b"]), bad], [row()])
    assert "\n" not in str(error.value)
    assert "SECRET" not in str(error.value)


def test_real_triples(shared: Path) -> None:
    files = {s: str(shared / f"webnlg/{s}.parquet") for s in ("train", "test")}
    columns = {"references": "references", "group": "seen", "protect": "entities"}
    task = generate(files, type="parquet", **columns)
    found = prepare("webnlg", task, 0)
    # Of 18,102 texts, as in the paper, those are left out whose source stands in both splits.
    assert found.summary["rows"] == {"train": 18_066, "test": 1_862}
    assert found.tables["test"]["group"].to_pylist().count("seen") == 971
