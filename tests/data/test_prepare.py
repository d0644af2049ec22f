import json
import re
from typing import Any

import pyarrow as pa
import pytest

from rapt.attacks.victims import with_values
from rapt.data.examples import COLUMNS
from rapt.data.prepare import comparable, identity, normalized, prepare
from rapt.utils.errors import RaptError
from tests.data.conftest import EVALUATION, age_bins, label, make_task, texts, write

AUTHOR = {"author": {"type": "values", "column": "who", "values": ["me", "you"]}}


def test_columns_are_those_of_the_contract() -> None:
    write("a.csv", ["text,y,who", "one,1,me", "two,0,you", "three,1,me"])
    task = make_task({"all": "a.csv"}, label=label("y", "bad", "good"), attributes=AUTHOR)
    prepared = prepare("a", task, 0)
    schema = prepared.tables["train"].schema
    assert schema == pa.schema(
        {
            "example_id": pa.string(),
            "text": pa.string(),
            "text_pair": pa.string(),
            "choices": pa.list_(pa.string()),
            "label": pa.int64(),
            "attribute_author": pa.string(),
        }
    )
    assert prepared.tables["test"].schema == schema
    assert prepared.tables["train"]["example_id"].to_pylist() == ["train-000000", "train-000001"]
    assert prepared.tables["test"]["example_id"].to_pylist() == ["test-000000"]
    rows = [r for table in prepared.tables.values() for r in table.to_pylist()]
    assert {(r["text"], r["label"], r["attribute_author"]) for r in rows} == {
        ("one", 1, "me"),
        ("two", 0, "you"),
        ("three", 1, "me"),
    }


def test_every_row_is_kept_or_counted() -> None:
    rows = ["a,2,me,no", "b,-2,me,no", "Same  TEXT,1,me,no", "c,0,me,no", "d,1,them,no"]
    rows += ["e,1,me,yes", " ,1,me,no", "f,3,me,no"]
    write("train.csv", ["text,y,who,spam", *rows])
    write("test.csv", ["text,y,who,spam", "same text,1,you,no", "g,-1,me,no"])
    task = make_task(
        {"train": "train.csv", "test": "test.csv"},
        label=label("y", "bad", "good", threshold=0),
        attributes=AUTHOR,
        exclude={"spam": ["yes"]},
        rows={"train": 2, "test": None},
    )
    summary = prepare("a", task, 0).summary
    assert summary["read"] == 10
    assert summary["dropped"] == {
        "excluded": 1,
        "rating equal to the threshold": 1,
        "empty text": 1,
        EVALUATION: 1,
        "not drawn": 2,
    }
    assert summary["lacking"] == {"another value of attribute author": 1}
    assert summary["rows"] == {"train": 2, "test": 2}


@pytest.mark.parametrize("is_labelled", [True, False])
def test_an_attack_never_takes_a_row_from_a_task_that_is_tuned(is_labelled: bool) -> None:
    lines = [f"t {i},{i % 2},{'xyz'[i % 3]},{i if i % 4 else 'none'}" for i in range(24)]
    write("a.csv", ["text,y,who,age", *lines])
    task = make_task(
        {"all": "a.csv"},
        label=label("y", "0", "1") if is_labelled else None,
        attributes={
            "who": {"type": "values", "column": "who", "values": ["x", "y"]},
            "age": {"type": "bins", "column": "age", "least": 2, "most": 20, "count": 2},
        },
    )
    prepared = prepare("a", task, 0)
    rows = [row for table in prepared.tables.values() for row in table.to_pylist()]
    expected = {
        (i, "xy"[i % 3] if i % 3 < 2 else None, 2 <= i <= 20 and i % 4 > 0) for i in range(24)
    }
    if not is_labelled:
        expected = {one for one in expected if one[1] and one[2]}
    assert {
        (int(row["text"][2:]), row["attribute_who"], row["attribute_age"] is not None)
        for row in rows
    } == expected
    table = pa.concat_tables(prepared.tables.values())
    assert len(with_values(table, ["who", "age"])) == sum(bool(w and a) for _, w, a in expected)


def test_white_space_and_case_make_no_class() -> None:
    lines = [f"t {i},{good}" for i, good in enumerate(["good", "good ", "Good", "good\xa0", "bad"])]
    write("a.csv", ["text,y", *lines])
    for fold in (True, False):
        how = label("y", "bad", "good") | {"fold_case": fold}
        task = make_task({"all": "a.csv"}, label=how)
        if fold:
            tables = prepare("a", task, 0).tables.values()
            assert sorted(n for t in tables for n in t["label"].to_pylist()) == [0, 1, 1, 1, 1]
        else:
            with pytest.raises(RaptError, match="got a value not shown in 1 of 5 rows"):
                prepare("a", task, 0)


def test_long_texts_are_cut_and_counted() -> None:
    lines = [f"{'word ' * length}{i}" for i, length in enumerate([0, 1, 2, 3, 9])]
    write("a.csv", ["text", *lines])
    prepared = prepare("a", make_task({"all": "a.csv"}, cut_words=3), 0)
    texts = {t for table in prepared.tables.values() for t in table["text"].to_pylist()}
    assert texts == {"0", "word 1", "word word 2", "word word word"}
    assert prepared.summary["cut"] == 2


@pytest.mark.parametrize(
    ("values", "names", "numbers"),
    [
        (["neg", "pos", "neg"], ["neg", "pos"], [0, 1, 0]),
        (["1", "0", "1"], ["neg", "pos"], [1, 0, 1]),
        (["1.0", "0.0", "1.0"], ["neg", "pos"], [1, 0, 1]),
        (["5", "1", "3"], ["1", "2", "3", "4", "5"], [4, 0, 2]),
    ],
)
def test_labels_by_name_or_by_number(
    values: list[str], names: list[str], numbers: list[int]
) -> None:
    write("a.csv", ["text,y", *(f"text {i},{value}" for i, value in enumerate(values))])
    prepared = prepare("a", make_task({"all": "a.csv"}, label=label("y", *names)), 0)
    rows = [row for table in prepared.tables.values() for row in table.to_pylist()]
    assert {row["text"]: row["label"] for row in rows} == {
        f"text {i}": number for i, number in enumerate(numbers)
    }


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["-1", "-1", "1"], "got '-1' in 2 of 3 rows, expected neg, pos or, in all rows, 0 to 1. "),
        (["neutral", "pos", "neg"], "got a value not shown in 1 of 3 rows"),
        (["2", "1", "0"], "got '2' in 1 of 3 rows"),
        (["0.5", "1", "0"], "got '0.5' in 1 of 3 rows"),
        (["", "1", "0"], "got no class in 1 of 3 rows (of the file's, 1), expected"),
        (["pos", "1", "0"], "got '0' in 2 of 3 rows"),
        (["the secret diary of me", "1", "0"], "got a value not shown in 1 of 3 rows"),
    ],
)
def test_an_unknown_label_stops(values: list[str], shown: str) -> None:
    write("a.csv", ["text,y", *(f"secret {i},{value}" for i, value in enumerate(values))])
    with pytest.raises(RaptError) as error:
        prepare("a", make_task({"all": "a.csv"}, label=label("y", "neg", "pos")), 0)
    assert str(error.value).startswith(f"tasks.a.label.column: {shown}")
    assert "secret" not in str(error.value)


def test_a_rating_that_is_no_number_stops_without_its_text() -> None:
    write("a.csv", ["text,y", "a,1", "b,secret", "c,nan"])
    with pytest.raises(RaptError) as error:
        prepare("a", make_task({"all": "a.csv"}, label=label("y", "n", "p", threshold=0)), 0)
    assert str(error.value) == (
        "tasks.a.label.column: got no number in 2 of 3 rows, expected one in each. Correct them, "
        "or leave such rows out with exclude."
    )


def test_a_pair_is_known_in_either_order_and_not_by_one_text() -> None:
    assert identity(["A  b", "c"]) == identity(["C", "a B"])
    assert identity(["a", "b"]) != identity(["a", "c"])
    assert identity(["a b"]) != identity(["a", "b"])
    assert normalized(" Straße\tX\n") == normalized("STRASSE x")


def _split(*texts: str, **columns: list[list[str]]) -> pa.Table:
    none = pa.nulls(len(texts), pa.string())
    return pa.table({"text": texts, "text_pair": none, "choices": none, **columns})


def test_texts_that_differ_by_case_and_white_space_are_the_same() -> None:
    splits = (" TWO\n", "three"), ("two", "four")
    ones, others = (comparable(_split(*texts), COLUMNS) for texts in splits)
    assert ones["identity"].isin(others["identity"]).tolist() == [True, False]


def test_the_words_and_tags_of_a_text_are_counted() -> None:
    frame = comparable(_split("a b", "a b c", entities=[["O", "O"], ["O", "O"]]), COLUMNS)
    assert frame["words_of_text"].tolist() == [2, 3]
    assert frame["tags_of_text"].tolist() == [2, 2]
    assert "tags_of_text" not in comparable(_split("one"), COLUMNS)


def test_the_draw_is_fixed() -> None:
    """Other machines and versions of NumPy or pandas must draw exactly these rows."""
    write("a.csv", ["text", *(f"text {i}" for i in range(20))])
    prepared = prepare("a", make_task({"all": "a.csv"}, rows={"train": 4, "test": 3}), 0)
    assert texts(prepared, "train") == ["text 3", "text 1", "text 17", "text 7"]
    assert texts(prepared, "test") == ["text 15", "text 8", "text 19"]


def test_a_draw_depends_on_seed_and_task_and_grows_by_its_end() -> None:
    write("a.csv", ["text", *(f"text {i}" for i in range(200))])

    def train(name: str, seed: int, rows: int | None) -> list[str]:
        task = make_task({"all": "a.csv"}, rows={"train": rows, "test": 50})
        return texts(prepare(name, task, seed), "train")

    few = train("a", 0, 30)
    assert train("a", 0, None)[:30] == few
    assert train("a", 1, 30) != few
    assert train("b", 0, 30) != few


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ({"train": 9, "test": 1}, "tasks.a.rows.train: got 9, expected at most 2, "),
        ({"train": 1, "test": 3}, "tasks.a.rows.test: got 3, expected at most 2 of all 3 rows."),
    ],
)
def test_more_rows_than_there_are(rows: dict[str, int], line: str) -> None:
    write("a.csv", ["text", "a", "b", "c"])
    with pytest.raises(RaptError, match=f"^{re.escape(line)}"):
        prepare("a", make_task({"all": "a.csv"}, rows=rows), 0)


def test_no_rows_left() -> None:
    write("train.csv", ["text", "a"])
    write("test.csv", ["text", "A"])
    with pytest.raises(RaptError, match=r"^tasks\.a: got no rows for train"):
        prepare("a", make_task({"train": "train.csv", "test": "test.csv"}), 0)


def test_dirty_numbers_are_binned_and_the_others_counted() -> None:
    young, old = ["18", " 19 ", "20.0", "18"], ["30years", ",31", "30", "31"]
    others = ["247", "2.0", "NA", "", "prefer not to say"]
    lines = [f'text {i},"{age}"' for i, age in enumerate(young + old + others)]
    write("train.csv", ["text,age", *lines])
    write("test.csv", ["text,age", "a,30", "b,29.9", "c,110", "d,{}", "e,10"])
    task = make_task({"train": "train.csv", "test": "test.csv"}, attributes=age_bins(2))
    prepared = prepare("a", task, 0)
    assert prepared.summary["dropped"] == {
        "attribute age: no number": 4,
        "attribute age: outside 10 to 110": 2,
        "empty text": 0,
        EVALUATION: 0,
        "not drawn": 0,
    }
    found = {
        row["text"]: row["attribute_age"]
        for table in prepared.tables.values()
        for row in table.to_pylist()
    }
    expected = ["[10, 30)"] * 4 + ["[30, 110]"] * 4
    assert [found[f"text {i}"] for i in range(8)] == expected
    assert [found[text] for text in "be"] == expected[:2]
    assert [found[text] for text in "ac"] == expected[-2:]


@pytest.mark.parametrize("ages", [["10"] * 9, ["110", "50", "99"]])
def test_bins_depend_on_no_test_row_and_on_no_draw(ages: list[str]) -> None:
    write("train.csv", ["text,age", *(f"text {i},{20 + i}" for i in range(40))])
    write("test.csv", ["text,age", *(f"other {i},{age}" for i, age in enumerate(ages))])
    for drawn in (None, 3):
        task = make_task(
            {"train": "train.csv", "test": "test.csv"},
            attributes=age_bins(4),
            rows={"train": drawn, "test": None},
        )
        rows = prepare("a", task, 0).tables["train"].to_pylist()
        bins = ["[10, 30)", "[30, 40)", "[40, 50)", "[50, 110]"]
        assert all(r["attribute_age"] == bins[int(r["text"][5:]) // 10] for r in rows)


def write_tagged(path: str, rows: list[dict[str, Any]]) -> str:
    return write(path, [json.dumps(row) for row in rows])


def test_words_that_come_with_tags_stay_words_with_tags() -> None:
    train = [
        {
            "tokens": ["Anna", "isn't", "in", "New", "York."],
            "tags": ["B-p", "O", "O", "B-l", "I-l"],
        },
        {"tokens": [], "tags": []},
        {"tokens": ["here"], "tags": ["O"]},
    ]
    test = [{"tokens": ["@you", ":)"], "tags": ["O", "O"]}]
    files = {"train": write_tagged("a.jsonl", train), "test": write_tagged("b.jsonl", test)}
    task = make_task(files, "jsonl", text="tokens", entities="tags")
    prepared = prepare("a", task, 0)
    assert prepared.tables["train"].schema.field("entities").type == pa.list_(pa.string())
    rows = [row for table in prepared.tables.values() for row in table.to_pylist()]
    expected = {tuple(row["tokens"]): row["tags"] for row in train + test if row["tokens"]}
    assert {tuple(row["text"].split(" ")): row["entities"] for row in rows} == expected
    assert prepared.summary["dropped"]["empty text"] == 1


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"tokens": ["secret", "two words"], "tags": ["O", "O"]}, "text"),
        ({"tokens": ["secret", ""], "tags": ["O", "O"]}, "text"),
        ({"tokens": "secret", "tags": ["O"]}, "text"),
        ({"tokens": ["secret"], "tags": ["O", "O"]}, "entities"),
        ({"tokens": ["secret"], "tags": ["person"]}, "entities"),
        ({"tokens": ["secret"], "tags": [3]}, "entities"),
        ({"tokens": ["secret"], "tags": None}, "entities"),
    ],
)
def test_what_is_no_tagged_text_is_counted_and_not_shown(row: dict[str, Any], where: str) -> None:
    good = {"tokens": ["here"], "tags": ["O"]}
    path = write_tagged("a.jsonl", [good, row, good])
    task = make_task({"all": path}, "jsonl", text="tokens", entities="tags")
    with pytest.raises(RaptError, match=rf"tasks\.a\.{where}: got .* in 1 of 3 rows") as error:
        prepare("a", task, 0)
    assert "secret" not in str(error.value) and "two words" not in str(error.value)
