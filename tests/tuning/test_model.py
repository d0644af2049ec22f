"""Every family and tuner: it learns, is saved, and serves without this project."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModel, AutoModelForTextEncoding

from rapt.tuning.bilstm import BiLstmModel
from rapt.tuning.config import Run
from rapt.tuning.inputs import collate
from rapt.tuning.model import Classifier, adapt, load, load_backbone
from rapt.tuning.train import train_seed
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import LinearProbe
from rapt.utils.files import sha256
from tests.tuning.conftest import reread, texts
from tests.tuning.families import PAIRS, TUNERS, cell, served_alone
from tests.tuning.families import folders as folders
from tests.tuning.families import release as release
from tests.tuning.families import run as run


@pytest.mark.parametrize(("family", "tuner"), PAIRS)
def test_tunes_saves_and_serves(
    folders: dict[str, Path], run: Run, tmp_path: Path, family: str, tuner: str
) -> None:
    run = cell(run, folders[family], tuner)
    result = train_seed(run)
    for loss in ("task_loss", "reconstruction_loss") if tuner != "linear-probe" else ():
        curve = result.curves[loss]
        assert curve[-1] < curve[0]

    assert reread(run) == result.metrics["accuracy"]
    served = load(run.adapter, run.backbone)
    assert served.head.out_features == 3

    again = replace(run, adapter=tmp_path / "again")
    train_seed(again)
    assert sha256(again.adapter) == sha256(run.adapter)
    for path in run.adapter.glob("*.json"):
        assert str(folders[family].parent) not in path.read_text()
    kind: set[str] = FILES.get(tuner, ADAPTER_FILES)
    assert {p.name for p in run.adapter.iterdir()} == kind | {"head.safetensors", "rapt.json"}

    if (family, tuner) != ("t5", "prefix-tuning"):
        assert_serves_without_this_project(run, served)


ADAPTER_FILES = {"adapter_config.json", "adapter_model.safetensors"}
MODEL_FILES = {"config.json", "model.safetensors"}
FILES = {**dict.fromkeys(("full", "bitfit", "bilstm"), MODEL_FILES), "linear-probe": set()}


def assert_serves_without_this_project(run: Run, served: Classifier) -> None:
    split = texts(run, "test")
    auto = AutoModelForTextEncoding if run.backbone.name == "t5" else AutoModel
    if run.encoder:
        model = BiLstmModel.from_pretrained(run.adapter).eval()
    elif run.tuner.learns == "backbone":
        model = auto.from_pretrained(run.adapter).eval()
    else:
        model = auto.from_pretrained(run.backbone).eval()
        if not isinstance(run.tuner, LinearProbe):
            model = PeftModel.from_pretrained(model, run.adapter).eval()
    with torch.inference_mode():
        own = served.activations(collate(split, [0], 0))[0]
    torch.testing.assert_close(served_alone(model, split.tokens[0]), own)


@pytest.mark.parametrize("tuner", TUNERS)
def test_only_the_adapter_and_the_heads_learn(
    folders: dict[str, Path], run: Run, tuner: str
) -> None:
    backbone, _ = load_backbone(folders["gpt2"])
    made = Trainer(
        replace(run, tuner=TUNERS[tuner]), Classifier(adapt(backbone, TUNERS[tuner]), 3), 0
    )
    learns = {name: weights.requires_grad for name, weights in made.model.named_parameters()}
    ours = ("lora_", "prompt_encoder.", "head.", *([".bias"] if tuner == "bitfit" else []))
    expected = {name: tuner == "full" or any(own in name for own in ours) for name in learns}
    assert learns == expected
    assert (sum(learns.values()) > 2) == (tuner != "linear-probe")  # the head's two
