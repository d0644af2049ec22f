"""A gate's JSON is written before it stops, with a line for each failed expectation."""

from pathlib import Path
from typing import Any

import pytest

from rapt.results import gates
from rapt.utils import files
from rapt.utils.errors import RaptError


def finding(failed: int, ids: list[str]) -> dict[str, Any]:
    return {
        "expectation": "texts are there",
        "split": "train",
        "passed": not failed,
        "checked": 30,
        "failed": failed,
        "allowed": "no null",
        "examples": ids,
    }


def test_a_gate_passes_where_every_expectation_does(tmp_path: Path) -> None:
    report = gates.report([finding(0, [])], gate="raw", task="mine")
    assert report["passed"] and report["task"] == "mine"
    gates.write(tmp_path / "raw", {"mine": report})
    assert files.read_json(tmp_path / "raw/mine.json") == report
    gates.write(tmp_path / "raw", {"yours": report})
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["yours.json"]


def test_a_failed_gate_is_written_and_names_what_failed(tmp_path: Path) -> None:
    ids = [f"train-{i:06d}" for i in range(7)]
    failed = gates.report([finding(1, ids[:1]), finding(0, []), finding(7, ids)], gate="raw")
    whole = gates.report([finding(1, [])], gate="raw")
    folder = tmp_path / "raw"
    with pytest.raises(RaptError) as error:
        gates.write(folder, {"one": failed, "two": whole})
    assert not files.read_json(folder / "one.json")["passed"]
    assert str(error.value).splitlines() == [
        f"{folder}/one.json: train: texts are there: got 1 of 30 that fail (train-000000), "
        "expected no null.",
        f"{folder}/one.json: train: texts are there: got 7 of 30 that fail ("
        f"{', '.join(ids[:5])}, …), expected no null.",
        f"{folder}/two.json: train: texts are there: got 30, expected no null.",
    ]
