import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.data.prepare import Prepared, identity, normalized, prepare
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.data.conftest import label, make_task

EVALUATION = "training text also in the evaluation split"
AUTHOR = {"author": {"type": "values", "column": "who", "values": ["me", "you"]}}
PROFILE = ["age", "gender", "country", "married", "parenthood"]


def age_bins(count: int) -> dict[str, Any]:
    return {
        "age": {
            "type": "bins",
            "column": "age",
            "least": 10,
            "most": 110,
            "count": count,
            "edges": None,
        }
    }


def write(path: str, lines: list[str]) -> str:
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def texts(prepared: Prepared, split: str) -> list[str]:
    return prepared.tables[split]["text"].to_pylist()


def real(folder: Path, evaluation: str) -> dict[str, str]:
    return {"train": f"{folder}/train.parquet", "test": f"{folder}/{evaluation}.parquet"}


def test_columns_are_those_of_the_contract() -> None:
    write("a.csv", ["text,y,who", "one,1,me", "two,0,you", "three,1,me"])
    task = make_task(
        {"all": "a.csv"},
        label=label("y", "bad", "good"),
        attributes=AUTHOR,
    )
    prepared = prepare("a", task, 0)
    schema = prepared.tables["train"].schema
    assert schema == pa.schema(
        {
            "example_id": pa.string(),
            "text": pa.string(),
            "text_pair": pa.string(),
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
        "another value of attribute author": 1,
        "empty text": 1,
        EVALUATION: 1,
        "not drawn": 1,
    }
    assert summary["rows"] == {"train": 2, "test": 2}


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
        (
            ["-1", "-1", "1"],
            "got '-1' in 2 of 3 rows, expected neg, pos or, in all rows, 0 to 1. ",
        ),
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
    assert identity("A  b", "c") == identity("C", "a B")
    assert identity("a", "b") != identity("a", "c")
    assert identity("a b", None) != identity("a", "b")
    assert normalized(" Straße\tX\n") == normalized("STRASSE x")


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


def test_the_most_frequent_authors_remain() -> None:
    writers = ["ann"] * 5 + ["bob"] * 4 + ["eve"] * 3 + ["", " ", "NA"]
    write("a.csv", ["text,who", *(f"text {i},{who}" for i, who in enumerate(writers))])
    most: dict[str, Any] = {"author": {"type": "most-frequent", "column": "who", "count": 2}}
    prepared = prepare("a", make_task({"all": "a.csv"}, attributes=most), 0)
    assert prepared.summary["dropped"]["another value of attribute author"] == 6
    found = [v for t in prepared.tables.values() for v in t["attribute_author"].to_pylist()]
    assert sorted(found) == ["ann"] * 5 + ["bob"] * 4


@pytest.mark.parametrize(
    "gone",
    [
        ["eve,train,", "eve,train, ", "eve,train,"],  # empty
        ["eve,train,seen", "eve,train,SEEN", "eve,train,also  seen"],  # in the evaluation split
    ],
)
def test_rows_that_go_make_no_author_frequent(gone: list[str]) -> None:
    rows = ["ann,train,a", "ann,train,b", "bob,train,c", "bob,train,d", "eve,train,e"]
    rows += ["ann,test,seen", "bob,test,also seen", *gone]
    for split in ("train", "test"):
        write(f"{split}.csv", ["who,split,text", *(r for r in rows if r.split(",")[1] == split)])
    most: dict[str, Any] = {"author": {"type": "most-frequent", "column": "who", "count": 2}}
    files = {"train": "train.csv", "test": "test.csv"}
    prepared = prepare("a", make_task(files, attributes=most), 0)
    found = [v for t in prepared.tables.values() for v in t["attribute_author"].to_pylist()]
    assert sorted(found) == ["ann"] * 3 + ["bob"] * 3
    assert prepared.summary["dropped"]["another value of attribute author"] == 1


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_a_text_make_no_author_frequent(seed: int) -> None:
    """If rows are divided here, a text drawn for evaluation takes all its copies with it."""
    rows = ["eve,again"] * 6 + ["ann,a", "ann,b", "ann,c", "bob,d", "bob,e", "bob,f"]
    write("a.csv", ["who,text", *rows])
    most: dict[str, Any] = {"author": {"type": "most-frequent", "column": "who", "count": 2}}
    prepared = prepare("a", make_task({"all": "a.csv"}, attributes=most), seed)
    found = [v for t in prepared.tables.values() for v in t["attribute_author"].to_pylist()]
    assert sorted(found) == ["ann"] * 3 + ["bob"] * 3


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b ", "B", "7", "7.0", "d", "", " "]),  # b and 7 in two spellings
            st.sampled_from(["x", "y"]),
            st.sampled_from(["One text", "one  text", "two", "three", "four", "five", "six"]),
            st.sampled_from(["train", "test"]),
        ),
        min_size=6,
        max_size=30,
    ),
    test=st.integers(1, 6),
    seed=st.integers(0, 3),
)
def test_no_author_and_no_text_is_in_both_splits(
    rows: list[tuple[str, str, str, str]], test: int, seed: int
) -> None:
    """For any splits of the source, with authors of two columns and two spellings."""
    for split in ("train", "test"):
        # The attribute carries the author into the examples, which have no column of names.
        lines = [
            f"{t},{u},{p},{u}|{p}" for u, p, t, s in [*rows, ("", "", "last", split)] if s == split
        ]
        write(f"{split}.csv", ["text,user,place,both", *lines])
    everyone = sorted({f"{user}|{place}" for user, place, _, _ in rows} | {"-", "--"})
    task = make_task(
        {"train": "train.csv", "test": "test.csv"},
        attributes={"both": {"type": "values", "column": "both", "values": everyone}},
        authors=["user", "place"],
        rows={"train": None, "test": test},
    )
    try:
        prepared = prepare("a", task, seed)
    except RaptError as error:  # one author has nearly all rows, or the texts of all others
        assert re.search("at most|got no rows for train", str(error))
        return
    train, test_rows = (prepared.tables[split].to_pylist() for split in ("train", "test"))
    spelled_once = {"b ": "b", "B": "b", "7.0": "7"}

    def author(row: dict[str, str]) -> tuple[str, str]:
        user, place = row["attribute_both"].split("|")
        return spelled_once.get(user, user), place

    assert not set(map(author, train)) & set(map(author, test_rows))
    for some in (train, test_rows):  # each has a number in its split
        pairs = {(author(row), row["author"]) for row in some}
        assert len(pairs) == len({who for who, _ in pairs}) == len({n for _, n in pairs})
    identities = [{identity(row["text"], None) for row in rows} for rows in (train, test_rows)]
    assert not identities[0] & identities[1]
    assert prepared.summary["rows"]["test"] == test
    unknown = sum(not user.strip() for user, _, _, _ in rows)
    assert prepared.summary["dropped"]["unknown author"] == unknown


@given(
    copies=st.lists(st.integers(0, 9), min_size=4, max_size=40),
    split=st.sampled_from(["given", "drawn"]),
)
def test_no_text_is_in_both_splits(copies: list[int], split: str) -> None:
    lines = [f"{'  TEXT ' if i % 2 else 'text '}{copy}" for i, copy in enumerate(copies)]
    write("a.csv", ["text", *lines])
    write("train.csv", ["text", *lines, "only here"])
    write("test.csv", ["text", *lines[:2]])
    names = {"train": "train.csv", "test": "test.csv"} if split == "given" else {"all": "a.csv"}
    try:
        prepared = prepare("a", make_task(names), 0)
    except RaptError as error:
        assert len(set(copies)) == 1 and "got no rows for train" in str(error)
        return
    train, test = ({normalized(t) for t in texts(prepared, s)} for s in ("train", "test"))
    assert train and test and not train & test


def test_authors_are_drawn_whole_until_there_are_enough_rows() -> None:
    lines = [f"text {i},{i % 10}" for i in range(100)]
    write("a.csv", ["text,who", *lines])
    task = make_task({"all": "a.csv"}, authors=["who"], rows={"train": None, "test": 25})
    summary = prepare("a", task, 0).summary
    assert summary["rows"] == {"train": 70, "test": 25}
    assert summary["dropped"]["not drawn"] == 5


def test_a_missing_file_and_a_wrong_hash() -> None:
    with pytest.raises(RaptError, match=r"^a\.csv: got No such file"):
        prepare("a", make_task({"all": "a.csv"}), 0)
    write("a.csv", ["text", "a", "b"])
    found = files.sha256("a.csv")
    task = make_task({"all": "a.csv"}, sha256={"all": "0" * 64})
    with pytest.raises(RaptError) as error:
        prepare("a", task, 0)
    assert str(error.value) == (
        f"a.csv: got sha256 {found}, expected {'0' * 64}. It changed since it was entered: "
        "restore it, or correct sha256.all of its task."
    )
    prepared = prepare("a", make_task({"all": "a.csv"}, sha256={"all": found}), 0)
    assert prepared.summary["source"]["sha256"] == {"all": found}


def test_paths_start_at_the_main_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.csv", ["text", "a", "b"])
    slot = tmp_path / "slot"
    slot.mkdir()
    monkeypatch.chdir(slot)
    monkeypatch.setenv("RAPT_HOME", str(tmp_path))
    assert prepare("a", make_task({"all": "a.csv"}), 0).summary["read"] == 2


def test_sst2_loses_the_six_training_rows_that_stand_in_test(shared: Path, tmp_path: Path) -> None:
    task = make_task(
        real(shared / "sst2", "test"),
        "parquet",
        text="sentence",
        label=label("label", "negative", "positive"),
    )
    prepared = prepare("sst2", task, 0)
    assert prepared.summary["dropped"] == {"empty text": 0, EVALUATION: 6, "not drawn": 0}
    assert prepared.summary["rows"] == {"train": 67_343, "test": 1_821}
    theirs = pq.read_table(shared / "sst2" / "test.parquet")
    known = dict(zip(theirs["sentence"].to_pylist(), theirs["label"].to_pylist(), strict=True))
    ours = prepared.tables["test"]
    assert all(
        known[t] == y
        for t, y in zip(ours["text"].to_pylist(), ours["label"].to_pylist(), strict=True)
    )
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        prepare("sst2", task, 0).write(tmp_path / folder)
    assert files.sha256(tmp_path / "one") == files.sha256(tmp_path / "two")
    assert json.loads((tmp_path / "one" / "summary.json").read_text()) == prepared.summary


def test_happydb_loses_the_42_texts_that_stand_in_both_splits(shared: Path) -> None:
    task = make_task(
        real(shared / "happydb", "test"),
        "parquet",
        text="moment",
        label=label("social", "no", "yes"),
    )
    prepared = prepare("happydb", task, 0)
    raw = {
        split: set(pq.read_table(shared / f"happydb/{split}.parquet")["moment"].to_pylist())
        for split in ("train", "test")
    }
    both = raw["train"] & raw["test"]
    assert len(both) == 42
    assert not both & set(texts(prepared, "train"))
    assert both <= set(texts(prepared, "test"))
    # The 42 are in 131 of the training rows; 6 more differ in case or white space.
    assert prepared.summary["dropped"][EVALUATION] == 137


def test_happydb_by_an_attribute(shared: Path) -> None:
    task = make_task(
        real(shared / "happydb", "test"),
        "parquet",
        text="moment",
        attributes={"gender": {"type": "values", "column": "gender", "values": ["f", "m"]}},
    )
    prepared = prepare("happydb", task, 0)
    values = set(prepared.tables["train"]["attribute_gender"].to_pylist())
    assert values == {"f", "m"}
    assert prepared.summary["dropped"]["another value of attribute gender"] == 204
    assert prepared.tables["train"]["label"].null_count == prepared.summary["rows"]["train"]


def test_happydb_by_age_and_profile(shared: Path) -> None:
    task = make_task(
        real(shared / "happydb", "test"),
        "parquet",
        text="moment",
        attributes=age_bins(6),
        authors=PROFILE,
        rows={"train": None, "test": 2000},
    )
    prepared = prepare("happydb", task, 0)
    dropped = prepared.summary["dropped"]
    assert dropped["attribute age: no number"] == 78
    assert dropped["attribute age: outside 10 to 110"] == 43
    ages = prepared.tables["train"]["attribute_age"].to_pandas().value_counts(normalize=True)
    assert len(ages) == 6 and ages.between(0.12, 0.2).all()
    profiles: dict[str, set[tuple[Any, ...]]] = {}
    for split in ("train", "test"):
        for row in pq.read_table(shared / f"happydb/{split}.parquet").to_pylist():
            profile = tuple(row[column].removesuffix(".0") for column in PROFILE)
            profiles.setdefault(row["moment"], set()).add(profile)
    # A text of only one author identifies the author.
    train, test = (
        {author for t in texts(prepared, s) if len(profiles[t]) == 1 for author in profiles[t]}
        for s in ("train", "test")
    )
    assert len(train) > 1000 and len(test) > 50 and not train & test


def test_qqp_pairs(shared: Path) -> None:
    task = make_task(
        real(shared / "qqp", "validation"),
        "parquet",
        text="question1",
        text_pair="question2",
        label=label("label", "different", "same"),
        rows={"train": 500, "test": 200},
    )
    prepared = prepare("qqp", task, 0)
    assert prepared.summary["dropped"][EVALUATION] == 1
    assert prepared.summary["rows"] == {"train": 500, "test": 200}
    assert prepared.tables["train"]["text_pair"].null_count == 0


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


def test_wnut_17_keeps_every_word_and_its_tag(shared: Path) -> None:
    files = real(shared / "wnut17", "test")
    task = make_task(files, "parquet", text="tokens", entities="ner_tags")
    prepared = prepare("wnut17", task, 0)
    source = {
        (tuple(row["tokens"]), tuple(row["ner_tags"]))
        for path in files.values()
        for row in pq.read_table(path).to_pylist()
    }
    rows = [row for table in prepared.tables.values() for row in table.to_pylist()]
    assert len(rows) > 4_500
    assert {(tuple(row["text"].split(" ")), tuple(row["entities"])) for row in rows} <= source
