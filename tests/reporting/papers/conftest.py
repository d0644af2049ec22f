"""The papers' tables of synthetic experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting.papers import PaperTable, papers
from rapt.results import reader
from tests.conftest import ROOT
from tests.reporting import synthetic

EDGE = {
    "machine": {"cores": 2, "cpu": "a processor"},
    "edge": [
        {"name": "time, 10 words (the paper's Pi: 0.03 s)", "value": 0.05},
        {"name": "time, 100 words (the paper's Pi: 0.05 s)", "value": 0.07},
        {"name": "peak memory over the interpreter, 10 words", "value": 57.5},
        {"name": "time of rapt privatize, 10 words", "value": 3.2},
    ],
}


def found(p: Params, **more: Any) -> dict[str, PaperTable]:
    return {table.name: table for table in papers(reader.load(p), **more)}


def planned(preset: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A preset of which nothing has run."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    Path("params.yaml").write_text(presets.text(preset), encoding="utf-8")
    return params.load()


@pytest.fixture
def on_bert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A half-finished sweep of the paper's own setting: what t2t has at two etas has run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    yaml = YAML()
    content = yaml.load(presets.text("paper-nlu-bert"))
    sweep = {"tasks": ["sst2"], "train": ["sst2"], "tuners": ["lora", "prefix"], "channels": []}
    content["sweep"].update(sweep, methods=["t2t", "rapt"], etas=[75, 150], tune_at=[75, 150])
    yaml.dump(content, Path("params.yaml"))
    p = params.load()
    for cell in plan(p):
        if cell.factors["method"] == "t2t":
            synthetic.write_cell(cell)
    return p
