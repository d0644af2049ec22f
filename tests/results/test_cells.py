"""A cell's JSON, byte for byte, and read back."""

from pathlib import Path

import pytest

from rapt import paths
from rapt.results import cells
from rapt.results.cells import Cell, CellResult, Metric, SeedResult
from rapt.utils import files

WRITTEN = """{
 "baselines": {
  "majority": 0.5
 },
 "cell": "a-cell",
 "counts": {
  "texts": 3
 },
 "factors": {
  "task": "mine"
 },
 "kind": "invert",
 "metrics": {
  "accuracy": {
   "high": 0.8,
   "low": 0.2,
   "mean": 0.5,
   "n": 1,
   "sd": null
  },
  "auc": {
   "mean": 1.0,
   "n": 1,
   "sd": null
  }
 },
 "protection": "unprotected",
 "schema": 2,
 "seeds": [
  {
   "curves": {},
   "metrics": {
    "accuracy": 0.5,
    "auc": 1.0
   },
   "seed": 0
  }
 ],
 "upper_bounds": {
  "accuracy": 0.9
 }
}
"""


def test_a_cell_is_written_with_the_contract_s_keys(empty: Path) -> None:
    Cell("invert", "a-cell", {"task": "mine"}).write(
        protection="unprotected",
        seeds=[SeedResult(seed=0, metrics={"auc": 1.0, "accuracy": 0.5})],
        baselines={"majority": 0.5},
        upper_bounds={"accuracy": 0.9},
        intervals={"accuracy": (0.2, 0.8)},
        counts={"texts": 3},
    )
    path = Path(paths.cell("invert", "a-cell"))
    assert path.read_text() == WRITTEN
    found = CellResult.model_validate(files.read_json(path))
    assert found.metrics["accuracy"] == Metric(mean=0.5, sd=None, n=1, low=0.2, high=0.8)
    assert found.metrics["auc"].low is None
    assert (found.baselines, found.upper_bounds) == ({"majority": 0.5}, {"accuracy": 0.9})
    assert found.seeds[0].curves == {}
    varying = files.read_json(".rapt/runs/invert/a-cell.json")
    assert varying["device"] == "cpu"


def test_only_what_every_seed_has_is_summed_up() -> None:
    metrics = ({"auc": 1.0, "recall": 0.5}, {"auc": 0.0})
    seeds = [SeedResult(seed=k, metrics=own) for k, own in enumerate(metrics)]
    (found,) = cells.metrics_over(seeds, {}).items()
    assert found == ("auc", Metric(mean=0.5, sd=0.5**0.5, n=2))


def test_a_machine_without_git_names_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cells.git("rev-parse", "HEAD") is None
