"""Any model by its structure, and what the test before tuning refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rapt.tuning import self_test
from rapt.tuning.backbones import load_tokenizer
from rapt.tuning.config import Run
from rapt.tuning.model import Classifier, load, load_backbone
from rapt.tuning.train import train_seed
from rapt.utils.errors import RaptError
from tests.tuning.families import FAMILIES, OTHERS, TUNERS, adapted, fits
from tests.tuning.families import folders as folders
from tests.tuning.families import release as release
from tests.tuning.families import run as run

BERT = "bert"


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("name", [*FAMILIES, *OTHERS])
def test_a_model_passes_with_every_tuner_that_fits(
    folders: dict[str, Path], name: str, tuner: str
) -> None:
    folder = folders[name]
    if fits(name, tuner):
        for precision in ("float32", "bf16"):
            model = Classifier(adapted(folder, tuner), 2, precision)
            self_test.check(model, load_tokenizer(folder).pad_token_id)
            assert model.training
            assert all(weight.grad is None for weight in model.parameters())
        return
    line = rf"^tuner: got {TUNERS[tuner].type} for .*{name}, .*expected one of .*p-tuning"
    with pytest.raises(RaptError, match=line):
        adapted(folder, tuner)


# Each tuner once, and where PEFT does not know a model's shape.
@pytest.mark.parametrize(
    ("name", "tuner"),
    [
        ("deberta-v2", "lora"),
        pytest.param("modernbert", "lora", marks=pytest.mark.slow),
        ("electra", "p-tuning"),
        pytest.param("distilbert", "prompt-tuning", marks=pytest.mark.slow),
        ("qwen3", "prefix-tuning"),
        pytest.param("gemma3_text", "full", marks=pytest.mark.slow),
        ("bart", "lora"),
    ],
)
def test_another_model_learns_and_is_loaded_again(
    folders: dict[str, Path], run: Run, name: str, tuner: str
) -> None:
    run = replace(run, backbone=folders[name], tuner=TUNERS[tuner])
    losses = train_seed(run).curves["task_loss"]
    assert losses[-1] < losses[0]
    again = load(run.adapter, run.backbone)
    assert again.head.out_features == 3


def test_a_model_that_reads_padding_is_refused(folders: dict[str, Path]) -> None:
    backbone = adapted(folders[BERT], "lora")
    forward = backbone.get_base_model().forward
    backbone.get_base_model().forward = lambda attention_mask, **given: forward(**given)
    with pytest.raises(RaptError, match=r"^the backbone: got bert, whose activations change with"):
        self_test.check(Classifier(backbone, 2), 1)


def test_a_tuner_without_effect_is_refused(folders: dict[str, Path]) -> None:
    model = Classifier(adapted(folders[BERT], "lora"), 2)
    for module in model.modules():
        if hasattr(module, "lora_B"):
            module.scaling = dict.fromkeys(module.scaling, 0.0)
    with pytest.raises(RaptError, match=r"^tuner: got one whose weights do not change what bert"):
        self_test.check(model, 1)
    assert model.training


def test_a_model_that_fails_is_one_line(folders: dict[str, Path]) -> None:
    backbone: Any = load_backbone(folders[BERT])[0]
    errors = [TypeError("no\n  tokens"), RuntimeError("sizes 3 and 4"), torch.OutOfMemoryError()]

    def fail(**given: Any) -> None:
        raise errors.pop(0)

    backbone.forward = fail
    model = Classifier(backbone, 2)
    for said in (r"TypeError: no tokens", "RuntimeError: sizes 3 and 4"):
        line = rf"^the backbone: got bert, which fails on a short text \({said}\), expected a model"
        with pytest.raises(RaptError, match=line):
            self_test.check(model, 1)
    with pytest.raises(torch.OutOfMemoryError):  # the training says so in its own line
        self_test.check(model, 1)


def test_an_unknown_model_is_one_line(folders: dict[str, Path], tmp_path: Path) -> None:
    config = json.loads((folders[BERT] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "bart-of-tomorrow"}))
    with pytest.raises(RaptError, match=r"got one of type .*expected one that Transformers knows"):
        load_backbone(tmp_path)
