import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import download, gate
from tests.stages.conftest import Workspace, edited

JSONL = {"type": "jsonl", "names": None, "skip_rows": 0, "quoted": False}
REPORT = "reports/gates/raw/mine.json"


def damage(split: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    path = f"data/raw/mine/{split}.parquet"
    table = files.read_parquet(path)
    rows = table.to_pylist()
    change(rows)
    files.write_parquet(path, pa.Table.from_pylist(rows, schema=table.schema))


def put(column: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[7][column] = value

    return change


def test_only_a_row_of_a_task_that_is_tuned_may_lack_an_attribute(workspace: Workspace) -> None:
    for changes in ({}, {"label": None}):
        workspace(**changes)
        download.main("mine")
        damage("train", put("attribute_author", None))
        if not changes:
            gate.main()
    with pytest.raises(RaptError, match=r"author values are there: got 1 of 50 that fail"):
        gate.main()


def test_good_data_pass_and_equal_runs_give_equal_bytes(workspace: Workspace) -> None:
    workspace()
    download.main("mine")
    gate.main()
    first = Path(REPORT).read_bytes()
    gate.main()
    assert Path(REPORT).read_bytes() == first
    report = files.read_json(REPORT)
    assert report["passed"] and report["gate"] == "raw" and report["task"] == "mine"
    assert report["sha256"]["train"] == files.sha256("data/raw/mine/train.parquet")
    assert all(e["failed"] == 0 and e["examples"] == [] for e in report["expectations"])
    assert {e["checked"] for e in report["expectations"]} == {50, 10}
    assert report["rows"] == {"train": 50, "test": 10}
    summary = files.read_json("data/raw/mine/summary.json")
    assert [report["read"], report["dropped"]] == [summary["read"], summary["dropped"]]


@pytest.mark.parametrize(
    ("change", "expectation", "ids"),
    [
        (put("text", None), "texts are there", ["train-000007"]),
        (put("text", "\n \t"), "texts are not empty", ["train-000007"]),
        (put("text", "secret " * 2000), "texts have the right length", ["train-000007"]),
        (put("label", 2), "labels are of the set", ["train-000007"]),
        (put("label", None), "labels are there", ["train-000007"]),
        (put("attribute_author", "secret"), "author values are of the set", ["train-000007"]),
        (put("example_id", "train-000003"), "example ids are unique", ["train-000003"] * 2),
        (lambda rows: rows.__delitem__(slice(9, None)), "enough rows", []),
    ],
)
def test_bad_data_stop_it_and_are_named_by_id(
    workspace: Workspace, change: Any, expectation: str, ids: list[str]
) -> None:
    workspace()
    download.main("mine")
    damage("train", change)
    with pytest.raises(RaptError) as error:
        gate.main()
    report = files.read_json(REPORT)
    failed = [e for e in report["expectations"] if not e["passed"]]
    assert not report["passed"]
    assert [(e["expectation"], e["split"], e["examples"]) for e in failed] == [
        (expectation, "train", ids)
    ]
    assert str(error.value).startswith(f"{REPORT}: train: {expectation}: ")
    assert all(i in str(error.value) for i in ids)
    assert "secret" not in str(error.value) + Path(REPORT).read_text()


@pytest.mark.parametrize(
    ("attribute", "least"),
    [
        ({"type": "most-frequent", "column": "who", "count": 2}, "me"),
        (
            {"type": "bins", "column": "y", "least": 0, "most": 9, "count": 2, "edges": None},
            "[0, 1)",
        ),
        (
            {"type": "bins", "column": "y", "least": 0, "most": 9, "count": None, "edges": [1]},
            "[0, 1)",
        ),
    ],
)
def test_values_found_in_the_data_are_at_least_two_and_as_few_as_asked(
    workspace: Workspace, attribute: dict[str, Any], least: str
) -> None:
    workspace(attributes={"author": attribute})
    download.main("mine")
    gate.main()
    allowed = r": author values are few: got {}, expected 2 to 2 different\.$"
    damage("train", put("attribute_author", "secret"))
    with pytest.raises(RaptError, match=allowed.format(3)):
        gate.main()
    damage("train", lambda rows: [row.update(attribute_author=least) for row in rows])
    with pytest.raises(RaptError, match=allowed.format(1)):
        gate.main()


def test_all_tasks_of_the_sweep_are_checked_before_it_stops(workspace: Workspace) -> None:
    workspace()
    with edited() as content:
        content["tasks"] |= {name: content["tasks"]["mine"] for name in ("first", "third")}
        content["sweep"] |= {"tasks": ["first", "mine", "third"]}
    for name in ("first", "mine", "third"):
        download.main(name)
    files.write_json("reports/gates/raw/other.json", {})
    damage("train", put("label", 2))
    shutil.copytree("data/raw/mine", "data/raw/third", dirs_exist_ok=True)
    with pytest.raises(RaptError) as error:
        gate.main()
    lines = str(error.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [REPORT, "reports/gates/raw/third.json"]
    passed = {path.stem: files.read_json(path)["passed"] for path in Path(REPORT).parent.iterdir()}
    assert passed == {"first": True, "mine": False, "third": False}


def test_evaluation_text_in_training_stops_it(workspace: Workspace) -> None:
    workspace()
    download.main("mine")
    (text,) = files.read_parquet("data/raw/mine/test.parquet")["text"].to_pylist()[:1]
    damage("train", put("text", f" {text.upper()}\n"))
    with pytest.raises(RaptError, match=r"no evaluation text in training: .*\(train-000007\)"):
        gate.main()


def test_a_word_without_its_tag_stops_it(workspace: Workspace) -> None:
    root = workspace(text="tokens", entities="tags", label=None, attributes=None, format=JSONL)
    rows = [{"tokens": ["secret", str(i)], "tags": ["O", "B-number"]} for i in range(60)]
    (root / "mine.csv").write_text("\n".join(map(json.dumps, rows)))
    download.main("mine")
    gate.main()
    damage("train", put("text", "secret 1 2"))
    with pytest.raises(RaptError, match=r"every word has its tag: .*\(train-000007\)"):
        gate.main()


def test_leading_white_space_is_no_empty_text(workspace: Workspace) -> None:
    workspace()
    download.main("mine")
    damage("train", put("text", "\n\n a text after all"))
    gate.main()
