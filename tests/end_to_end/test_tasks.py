"""Another task by params alone: SST-2 and HappyDB, from local files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED
from tests.end_to_end.conftest import Workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not SHARED.is_dir(), reason="the development data are not beside the project"
    ),
]

COLUMNS: dict[str, dict[str, Any]] = {
    "sst2": {"text": "sentence", "label": {"column": "label", "names": ["negative", "positive"]}},
    "happydb": {
        "text": "moment",
        "label": {"column": "social", "names": ["no", "yes"]},
        "attributes": {"gender": {"type": "values", "column": "gender", "values": ["f", "m"]}},
    },
}
EVALUATION = {"sst2": "validation", "happydb": "test"}


def switched(params: dict[str, Any]) -> None:
    """Both data sets, the cheap tuner, one method."""
    for name, columns in COLUMNS.items():
        splits = {"train": "train", "test": EVALUATION[name]}
        files = {ours: str(SHARED / name / f"{its}.parquet") for ours, its in splits.items()}
        params["tasks"][name] = {
            "source": {"type": "files", "files": files},
            "format": {"type": "parquet"},
            "rows": {"train": 60, "test": 40},
            **columns,
        }
    params["sweep"] |= {
        **{"tasks": list(COLUMNS), "train": list(COLUMNS), "infer": ["happydb"], "invert": []},
        **{"tuners": [], "probes": ["linear-probe"], "tune_at": []},
        **{"methods": ["rapt"], "attacked": ["rapt"], "channels": [], "channel_inversions": []},
    }


def test_tasks_switched_by_params_alone_run_through(built: Workspace, tmp_path: Path) -> None:
    """Where the demo has run: its embedding table stays what it is."""
    workspace = built.copy(tmp_path / "switched")
    workspace.edit(switched)
    workspace.repro("-q", "probe", "infer")
    for name in COLUMNS:
        path = f"reports/cells/train/{name}-minilm-linear-probe-rapt-75.json"
        cell = json.loads(workspace.read(path))
        assert cell["counts"] == {"train": 60, "test": 40}
        assert 0 < cell["metrics"]["accuracy"]["mean"] <= 1
    attack = json.loads(workspace.read("reports/cells/infer/authorship-happydb-rapt-75.json"))
    assert set(attack["metrics"]) == {"accuracy_gender", "empirical_privacy_gender"}
