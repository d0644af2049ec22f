"""Real data sets, prepared: which rows go, and what remains."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rapt.data.prepare import prepare
from rapt.utils import files
from tests.data.conftest import EVALUATION, age_bins, label, make_task, texts

PROFILE = ["age", "gender", "country", "married", "parenthood"]


def real(folder: Path, evaluation: str) -> dict[str, str]:
    return {"train": f"{folder}/train.parquet", "test": f"{folder}/{evaluation}.parquet"}


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
