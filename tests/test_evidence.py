"""The committed evidence is what its cells say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence import tables
from rapt import params
from rapt.reporting import cells
from tests.conftest import ROOT

EXPERIMENTS = [path.parent for path in sorted((ROOT / "evidence").glob("*/params.yaml"))]


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_the_tables_are_those_of_the_cells(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    written = (folder / "results.md").read_text(encoding="utf-8")
    assert tables.page(cells.load(params.load())) == written


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_every_cell_says_which_code_and_machine_made_it(folder: Path) -> None:
    made = sorted((folder / "reports/cells").rglob("*.json"))
    assert made
    for path in made:
        sidecar = folder / "runs" / path.relative_to(folder / "reports/cells")
        assert json.loads(sidecar.read_text())["commit"]
