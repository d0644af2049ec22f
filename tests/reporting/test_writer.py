"""The files of a report: equal bytes of equal cells, plots, numbers, and a report of nothing."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from rapt import paths
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting.summary import print_results
from rapt.results import reader
from rapt.utils import files
from tests.reporting.conftest import Page, make, rows

# Each test draws a whole page.
pytestmark = pytest.mark.slow


def test_nothing_but_params_makes_a_report(experiment: Params) -> None:
    for cell in plan(experiment):
        cell.path.unlink()
    for folder in ("gates", "calibration", "statistics"):
        for path in Path("reports", folder).rglob("*.json"):
            path.unlink()
    Path("reports/examples.json").unlink()
    text = Page(make(experiment)).text
    assert "No cell and attack with the same method and η have run yet" in text
    for stage in ("calibrate", "channel"):
        assert f"Missing: dvc repro {stage}" in text
    assert "dvc repro examples" in text
    assert f"0 of {len(plan(experiment))} planned cells have run" in text
    assert files.read_json("reports/metrics.json") == {}
    print_results(experiment)


def test_equal_cells_give_equal_bytes(experiment: Params) -> None:
    make(experiment)
    first = {path: files.sha256(path) for path in _outs()}
    files.write_json("reports/cells/train/x.json", {})
    reader.prune(experiment)
    make(experiment)
    assert {path: files.sha256(path) for path in _outs()} == first
    for path in _outs():
        content = path.read_bytes()
        assert str(Path.cwd()).encode() not in content
        assert f"{date.today():%Y-%m-%d}".encode() not in content
        assert not re.search(rb"dc:date|tEXtSoftware", content), path


def _outs() -> list[Path]:
    folders = [p for n in ("tables", "figures", "plots") for p in Path("reports", n).iterdir()]
    return sorted([paths.REPORT, Path("reports/metrics.json"), *folders])


def test_metrics_are_plain_numbers_by_kind_and_cell(whole: Params) -> None:
    metrics = files.read_json("reports/metrics.json")
    assert set(metrics) == {"train", "study", "local", "invert", "infer", "recognize"}
    cell = files.read_json("reports/cells/train/movies-minilm-lora-rapt-75.json")
    assert metrics["train"][cell["cell"]] == {
        "accuracy": round(cell["metrics"]["accuracy"]["mean"], 4)
    }
    assert set(metrics["infer"]["mlp-tweets-t2t-50"]) == {
        "accuracy_author",
        "empirical_privacy_author",
    }


def test_plots_are_tidy(whole: Params) -> None:
    plot = rows("reports/plots/utility.csv")
    assert list(plot[0]) == ["eta", "method", "mean", "series"]
    assert [row["eta"] for row in plot] == sorted((r["eta"] for r in plot), key=float)
    assert rows("reports/plots/privacy.csv")
