"""Questions with choices, on rows whose faults are known and on real MMLU."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rapt.data.prepare import prepare
from rapt.tasks.base import Task
from rapt.utils.errors import RaptError
from tests.data.conftest import label, make_task, write
from tests.data.conftest import workspace as workspace

LETTERS = ("A", "B", "C", "D")


def choose(files: dict[str, str] | None = None, **changes: Any) -> Task:
    content = {
        "type": "jsonl",
        "kind": "choose",
        "text": "question",
        "choices": "choices",
        "label": label("answer", *LETTERS),
    }
    return make_task(files or {"all": "a.jsonl"}, **content | changes)


def row(question: str = "Who?", choices: str = '["a", "b", "c", "d"]', answer: object = 1) -> str:
    return f'{{"question": "{question}", "choices": {choices}, "answer": {answer}}}'


def test_questions_keep_their_choices() -> None:
    write("a.jsonl", [row(), row("How?")])
    prepared = prepare("mine", choose(), 0)
    rows = [one for table in prepared.tables.values() for one in table.to_pylist()]
    assert {one["text"] for one in rows} == {"Who?", "How?"}
    assert all(one["choices"] == ["a", "b", "c", "d"] and one["label"] == 1 for one in rows)


def test_copies_have_the_same_choices_in_any_order() -> None:
    # One question is in both splits with the same choices, one with others.
    write("train.jsonl", [row("Who?", '["d", "c", "b", "a"]'), row("How?")])
    write("test.jsonl", [row("who?"), row("How?", '["a", "b", "c", "e"]')])
    found = prepare("mine", choose({"train": "train.jsonl", "test": "test.jsonl"}), 0)
    assert found.tables["train"]["text"].to_pylist() == ["How?"]


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        (row(choices='["a", "b", "c"]'), "got something else in 1 of 2 rows, expected a list of 4"),
        (row(choices='["a", "b", "c", null]'), "got something else in 1 of 2 rows"),
        (row(choices='"abcd"'), "got something else in 1 of 2 rows"),
        (row(answer=4), "got '4' in 1 of 2 rows, expected A, B, C, D or, in all rows, 0 to 3"),
    ],
)
def test_a_bad_row_is_refused_in_one_line(bad: str, line: str) -> None:
    write("a.jsonl", [row("SECRET?"), bad])
    with pytest.raises(RaptError, match=line) as error:
        prepare("mine", choose(), 0)
    assert "\n" not in str(error.value)
    assert "SECRET" not in str(error.value)


def test_rows_with_an_empty_choice_or_too_many_words_are_dropped() -> None:
    long = row("one two three four five six")
    write("a.jsonl", [row("Who?"), row("How?"), row(choices='["a", " ", "c", "d"]'), long])
    dropped = prepare("mine", choose(max_words=9), 0).summary["dropped"]
    assert (dropped["empty text"], dropped["longer than max_words"]) == (1, 1)


def test_choices_have_a_label() -> None:
    with pytest.raises(ValidationError, match="got choices without a label, expected one"):
        choose(label=None)


def test_real_questions(shared: Path) -> None:
    files = {s: str(shared / f"mmlu/{f}.parquet") for s, f in (("train", "dev"), ("test", "test"))}
    task = choose(files, type="parquet", max_words=120)
    prepared = prepare("mmlu", task, 0)
    test = prepared.tables["test"]
    assert len(test) + sum(prepared.summary["dropped"].values()) > 14_042
    assert {len(choices) for choices in test["choices"].to_pylist()} == {4}
    assert set(test["label"].to_pylist()) == {0, 1, 2, 3}
