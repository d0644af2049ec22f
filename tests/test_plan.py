"""Which cells an experiment consists of."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from ruamel.yaml import YAML

from rapt import params
from rapt.plan import PlannedCell, plan
from tests.conftest import ROOT

SHIPPED = YAML(typ="safe").load(ROOT / "params.yaml")


def planned(**sweep: Any) -> list[PlannedCell]:
    content = copy.deepcopy(SHIPPED)
    content["sweep"] |= sweep
    return plan(params.validate(content))


def test_no_denoiser_is_no_cell() -> None:
    assert "denoise" not in {cell.kind for cell in planned(denoisers=[])}


def test_membership_is_inferred_from_every_adapter_of_the_grid() -> None:
    cells = planned(memberships=["loss"])
    attacked = [cell for cell in cells if cell.kind == "membership"]
    assert [f"loss-{cell.cell}" for cell in cells if cell.kind == "train"] == [
        cell.cell for cell in attacked
    ]
    assert attacked[0].command == f"dvc repro membership@{attacked[0].cell}"
    assert {cell.factors["backbone"] for cell in attacked} == {"minilm"}


def test_every_denoiser_reads_every_release_that_has_a_channel() -> None:
    names = ["posterior-mean", "posterior-sample"]
    cells = [c for c in planned(denoisers=names, channels=["rapt"]) if c.kind == "denoise"]
    assert Counter(cell.factors["denoiser"] for cell in cells) == dict.fromkeys(names, 3)
    first = cells[0]
    assert first.cell == "movies-minilm-lora-rapt-50-posterior-mean"
    assert str(first.path) == f"reports/cells/denoise/{first.cell}.json"
    assert first.command == f"dvc repro denoise@{first.cell}"
    assert first.factors == {
        "task": "movies",
        "backbone": "minilm",
        "tuner": "lora",
        "method": "rapt",
        "eta": "50",
        "denoiser": "posterior-mean",
        "embedding": "minilm",
    }
