"""What every kind of task must make of raw rows: the suite runs over the registry."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rapt.data.prepare import Prepared, prepare
from rapt.kinds import KINDS
from rapt.tasks import TASKS
from rapt.tasks.base import Task
from rapt.utils.errors import RaptError
from tests.data.conftest import TASK, make_task, write
from tests.data.conftest import workspace as workspace

LETTERS = ("A", "B", "C")
# A section of each kind, and a row of its file, by the row's number.
SECTIONS: dict[str, dict[str, Any]] = {
    "classify": {"text": "text", "label": {"column": "y", "names": ["no", "yes"]}},
    "choose": {
        "text": "text",
        "choices": "choices",
        "label": {"column": "y", "names": list(LETTERS)},
    },
    "generate": {"text": "text", "references": "texts", "group": "group", "protect": "entities"},
}
ROWS = {
    "classify": lambda n: {"text": f"text {n}", "y": n % 2},
    "choose": lambda n: {"text": f"Which {n}?", "choices": ["one", "two", "three"], "y": n % 3},
    "generate": lambda n: {
        "text": [f"A_{n} | has | B"],
        "texts": [f"A {n} has B.", "It has."],
        "group": n % 2 == 0,
    },
}
names = pytest.mark.parametrize("name", list(TASKS.data))


def task(name: str, **changes: Any) -> Task:
    given = {"kind": name, **SECTIONS[name], **changes}
    made: Task = make_task({"train": "train.jsonl", "test": "test.jsonl"}, "jsonl", **given)
    return made


def prepared(made: Task) -> Prepared:
    for split, numbers in (("train", range(12)), ("test", range(10, 16))):
        write(f"{split}.jsonl", [json.dumps(ROWS[made.kind](n)) for n in numbers])
    return prepare("mine", made, 0)


class Recorded:
    """The columns of which something is expected."""

    def __init__(self) -> None:
        self.columns: list[str] = []

    def there(self, column: str, name: str) -> list[str]:
        self.columns.append(column)
        return [name]

    def in_set(
        self, column: str, name: str, values: Sequence[int | str], allowed: str
    ) -> list[str]:
        assert allowed
        return self.there(column, name) * (len(values) > 1)

    def texts(self, column: str, name: str) -> list[str]:
        return self.there(column, name)

    def equal(self, column: str, other: str, name: str, allowed: str) -> list[str]:
        return self.there(column, name)


def test_each_kind_has_a_section_here() -> None:
    assert set(SECTIONS) == set(ROWS) == set(TASKS.data)


@names
def test_a_section_is_that_of_its_kind_and_reads_back(name: str) -> None:
    made = task(name)
    assert type(made) is TASKS[name]
    assert TASK.validate_python(made.model_dump()) == made
    assert TASK.validate_python(made.model_dump(mode="json")) == made


@names
@pytest.mark.parametrize("other", list(TASKS.data))
def test_a_key_of_another_kind_says_nothing_where_it_is_null(name: str, other: str) -> None:
    foreign = set(TASKS[other].model_fields) - set(TASKS[name].model_fields)
    assert task(name, **dict.fromkeys(foreign)) == task(name)
    for key in foreign & {"protect"}:
        assert task(name, **{key: "words"}) == task(name)


@names
def test_the_tables_have_the_columns_of_the_page(name: str) -> None:
    """docs/data.md: ids, texts and label first, then those of the kind."""
    made = task(name)
    found = prepared(made)
    for split, table in found.tables.items():
        first = ["example_id", "text", "text_pair", "choices", "label"]
        assert table.column_names[:5] == first
        assert table["example_id"].to_pylist() == [f"{split}-{n:06d}" for n in range(len(table))]
        assert set(made.targets) <= set(table.column_names)
        for target in made.targets:
            assert table[target].null_count == 0
        assert table["label"].type == pa.int64()
    # Two rows stand in both splits.
    assert list(found.summary["dropped"].values()).count(2) == 1


@names
def test_the_gate_expects_columns_that_there_are(name: str) -> None:
    made, tables = task(name), prepared(task(name)).tables
    for split, table in tables.items():
        recorded = Recorded()
        assert all(made.expected(recorded, split))
        assert set(recorded.columns) <= set(table.column_names)
        assert set(made.targets) <= set(recorded.columns)
        for column in recorded.columns:
            assert table[column].null_count == 0


@names
def test_a_copy_in_other_words_of_case_is_dropped_from_training(name: str) -> None:
    made = task(name)
    loud = {**ROWS[name](0)}
    loud["text"] = (
        [one.upper() for one in loud["text"]] if name == "generate" else loud["text"].upper()
    )
    write("train.jsonl", [json.dumps(ROWS[name](n)) for n in (0, 1)])
    write("test.jsonl", [json.dumps(loud)])
    tables = prepare("mine", made, 0).tables
    assert {row["text"] for row in tables["train"].to_pylist()} == {text_of(name, 1)}


def text_of(name: str, number: int) -> str:
    text = ROWS[name](number)["text"]
    return text if isinstance(text, str) else text[0].replace("_", " ")


@names
def test_a_column_that_is_missing_is_one_line(name: str) -> None:
    for key, value in SECTIONS[name].items():
        if key != "protect":
            wrong = value | {"column": "txet"} if isinstance(value, dict) else "txet"
            with pytest.raises(RaptError, match=rf"tasks\.mine\.{key}.*: got 'txet', ") as error:
                prepared(task(name, **{key: wrong}))
            assert "\n" not in str(error.value)


@names
def test_what_a_statement_says(name: str) -> None:
    made = task(name)
    facts = made.facts()
    assert facts["kind"] == name
    assert facts["protect"] == SECTIONS[name].get("protect", "words")
    assert (facts["labels"] is not None) == KINDS[name].has_classes
    gaps = made.gaps({"whole": 1, "some": 2, "none": 3})
    assert bool(gaps) == made.scored_apart
    assert all(gap.endswith(".") for gap in gaps)
    assert made.is_tuned


@names
def test_rows_are_drawn_divided_and_left_out_alike(name: str) -> None:
    """What the base does is so for each kind."""
    write("all.jsonl", [json.dumps(ROWS[name](n)) for n in range(20)])
    rows = {"rows": {"train": 5, "test": 4}}
    given = {"kind": name, **SECTIONS[name], **rows}
    made = make_task({"all": "all.jsonl"}, "jsonl", **given)
    first, again = (prepare("mine", made, 0).tables for _ in range(2))
    assert first == again
    texts = {split: set(table["text"].to_pylist()) for split, table in first.items()}
    assert (len(texts["train"]), len(texts["test"])) == (5, 4)
    assert not texts["train"] & texts["test"]
    long = make_task({"all": "all.jsonl"}, "jsonl", **given, max_words=1)
    with pytest.raises(RaptError, match="got no rows, expected some"):
        prepare("mine", long, 0)
    assert Path("all.jsonl").is_file()
