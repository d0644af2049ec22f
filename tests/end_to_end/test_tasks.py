"""Another task by params alone: SST-2 and HappyDB, from local files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED
from tests.end_to_end.conftest import Workspace, small

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not SHARED.is_dir(), reason="the development data are not beside the project"
    ),
]

FILES = {
    "sst2": ("train", "validation"),
    "happydb": ("train", "test"),
}
COLUMNS: dict[str, dict[str, Any]] = {
    "sst2": {
        "text": "sentence",
        "label": {"column": "label", "names": ["negative", "positive"], "threshold": None},
    },
    "happydb": {
        "text": "moment",
        "label": {"column": "social", "names": ["no", "yes"], "threshold": None},
        "attributes": {"gender": {"type": "values", "column": "gender", "values": ["f", "m"]}},
    },
}


@pytest.mark.parametrize("name", FILES)
def test_a_task_switched_by_params_alone_runs_through(name: str, tmp_path: Path) -> None:
    def switch(params: dict[str, Any]) -> None:
        small(params)
        train, test = FILES[name]
        params["tasks"][name] = {
            "source": {
                "type": "files",
                "files": {
                    "train": str(SHARED / name / f"{train}.parquet"),
                    "test": str(SHARED / name / f"{test}.parquet"),
                },
                "sha256": None,
            },
            "format": {"type": "parquet", "names": None, "skip_rows": 0, "quoted": False},
            "text_pair": None,
            "entities": None,
            "attributes": None,
            "authors": None,
            "exclude": None,
            "rows": {"train": 60, "test": 40},
        } | COLUMNS[name]
        attributed = [name] if COLUMNS[name].get("attributes") else []
        params["sweep"] |= {
            "tasks": [name],
            "train": [name],
            "infer": attributed,
            "methods": ["rapt"],
        }

    workspace = Workspace(tmp_path, switch)
    workspace.dvc("repro", "-q")
    cell = json.loads(workspace.read(f"reports/cells/train/{name}-minilm-lora-rapt-75.json"))
    assert cell["counts"] == {"train": 60, "test": 40}
    assert 0 < cell["metrics"]["accuracy"]["mean"] <= 1
    if name == "happydb":
        attack = json.loads(workspace.read("reports/cells/infer/mlp-happydb-rapt-75.json"))
        assert set(attack["metrics"]) == {"accuracy_gender", "empirical_privacy_gender"}
