"""What a training run is told, from params.yaml as shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from rapt import params
from rapt.tuning.config import BiLstm, Full, Lora, Run
from stages import tuning
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def shipped() -> params.Params:
    return params.load(ROOT / "params.yaml")


def told(p: params.Params, backbone: str, tuner: str) -> Run:
    factors = {"task": "movies", "backbone": backbone, "tuner": tuner, "method": "rapt"}
    return tuning._run(p, "cell", factors, Path("release"), 1, Path("adapters"))


def test_a_run_has_the_encoder_of_its_backbone(shipped: params.Params) -> None:
    run = told(shipped, "bilstm", "full")
    assert run.encoder == BiLstm(hidden=300, layers=1, dropout=0.0)
    assert isinstance(run.tuner, Full)
    other = told(shipped, "minilm", "lora")
    assert other.encoder is None
    assert isinstance(other.tuner, Lora)
    assert other.backbone == run.backbone
