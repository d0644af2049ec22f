"""The configuration of a training run, from params.yaml as shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rapt import params
from rapt.results import cells, predictions
from rapt.tuning.config import BiLstm, Full, Lora, Run, Trained
from rapt.utils import files
from stages import tuning
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def shipped() -> params.Params:
    return params.load(ROOT / "tests/every_section.yaml")


def told(p: params.Params, backbone: str, tuner: str) -> Run:
    factors = {"task": "movies", "backbone": backbone, "tuner": tuner, "method": "rapt"}
    return tuning.run_of(p, "cell", factors, Path("release"), 1, Path("adapters"))


def test_a_run_has_the_encoder_of_its_backbone(shipped: params.Params) -> None:
    run = told(shipped, "bilstm", "full")
    assert run.encoder == BiLstm(hidden=300, layers=1, dropout=0.0)
    assert isinstance(run.tuner, Full)
    other = told(shipped, "minilm", "lora")
    assert other.encoder is None
    assert isinstance(other.tuner, Lora)
    assert other.backbone == run.backbone


def test_checkpoints_last_until_the_cell_is_written(
    shipped: params.Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.touch()
    result = cells.SeedResult(seed=0, metrics={"accuracy": 1.0})
    statement: dict[str, Any] = {"kind": "classify", "embedding": "minilm"}
    statement["protection"] = "unprotected"
    statement["labels"] = ["no", "yes"]
    files.write_json("release/statement.json", statement)
    for split in ("train", "test"):
        rows = pa.table({"example_id": ["a", "b"], "label": [0, 1]})
        files.write_parquet(f"release/seed-0/{split}.parquet", rows)

    def trained(runs: list[Run]) -> list[Trained]:
        runs[0].adapter.mkdir(parents=True)
        return [Trained(result, {"test": np.eye(2, dtype=np.float32)}, "cpu", checkpoint)]

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(params, "load", lambda: shipped)
    monkeypatch.setattr(tuning, "train_cell", trained)
    factors = {"task": "movies", "backbone": "minilm", "tuner": "lora", "method": "rapt"}
    with monkeypatch.context() as patch:
        patch.setattr(cells.files, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            tuning.tune("train", "cell", factors, Path("release"))
    assert checkpoint.exists()
    tuning.tune("train", "cell", factors, Path("release"))
    assert not checkpoint.exists()
    assert files.read_json("reports/cells/train/cell.json")["seeds"] == [
        {"seed": 0, "metrics": {"accuracy": 1.0}, "curves": {}}
    ]
    found = predictions.read(Path("reports/predictions/train/cell.parquet"))
    assert list(found) == ["test"]
    assert found["test"].examples == ["a", "b"]
    assert found["test"].right.all()
