"""Who is frequent, and that no author and no text is in both splits."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.data.prepare import identity, normalized, prepare
from rapt.utils.errors import RaptError
from tests.data.conftest import make_task, texts, write


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
    everyone = sorted({f"{user}|{place}".strip() for user, place, _, _ in rows} | {"-", "--"})
    task = make_task(
        {"train": "train.csv", "test": "test.csv"},
        attributes={"both": {"type": "values", "column": "both", "values": everyone}},
        authors=["user", "place"],
        rows={"train": None, "test": test},
    )
    try:
        prepared = prepare("a", task, seed)
    except RaptError as error:  # one author has nearly all rows, or the texts of others, or none
        assert re.search("at most|got no rows for train|got no rows, .*unknown author", str(error))
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
    identities = [{identity([row["text"]]) for row in rows} for rows in (train, test_rows)]
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
