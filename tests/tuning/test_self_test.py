"""Any model by its structure, and what the test before tuning refuses."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from peft import PeftModel

from rapt.tuning import self_test
from rapt.tuning.config import Run
from rapt.tuning.inputs import Split, collate
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import Classifier, Writer, load, load_backbone, save
from rapt.tuning.train import train_seed
from rapt.utils.errors import RaptError
from tests.tuning.families import FAMILIES, OTHERS, SIZE, TUNERS, adapted, fits, make, served_alone
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
    kind = load_backbone(folder)[0].config.model_type
    line = rf"^tuner: got {TUNERS[tuner].type} for .*{kind}, .*expected one of .*p-tuning"
    with pytest.raises(RaptError, match=line):
        self_test.check(Classifier(adapted(folder, tuner), 2), 1)


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
        ("umt5", "full"),
        pytest.param("opt", "linear-probe", marks=pytest.mark.slow),
        pytest.param("xlnet", "lora", marks=pytest.mark.slow),
        pytest.param("mamba", "prompt-tuning", marks=pytest.mark.slow),
    ],
)
def test_another_model_learns_and_is_loaded_again(
    folders: dict[str, Path], run: Run, name: str, tuner: str
) -> None:
    run = replace(run, backbone=folders[name], tuner=TUNERS[tuner])
    losses = train_seed(run).curves.get("task_loss", [1, 0])  # a linear probe has none
    assert losses[-1] < losses[0]
    again = load(run.adapter, run.backbone)
    assert again.head.out_features == 3


@pytest.mark.parametrize(
    ("name", "tuner"), [("bart", "lora"), ("bart", "p-tuning"), ("gemma3", "lora")]
)
def test_the_call_in_an_adapters_card_loads_it(
    folders: dict[str, Path], tmp_path: Path, name: str, tuner: str
) -> None:
    model = Classifier(adapted(folders[name], tuner), 2)
    save(model, tmp_path, str(folders[name]))
    tokens = [5, 6, 7]
    alone = served_alone(called(tmp_path), tokens)
    torch.testing.assert_close(alone, activations_of(model, tokens))


def test_the_call_in_a_writers_card_loads_it(tmp_path: Path) -> None:
    whole, adapter = (
        make("gemma3", tmp_path / "whole", hf.AutoModelForCausalLM),
        tmp_path / "adapter",
    )
    model = Writer(adapted(whole, "lora", writes=True))
    save(model, adapter, str(whole))
    tokens = [5, 6, 7]
    alone = called(adapter)(torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(alone, model.head(activations_of(model, tokens)))


def called(adapter: Path) -> Any:
    """Return what the call in an adapter's card makes."""
    (line,) = re.findall(r"^ +(PeftModel.*)$", (adapter / "README.md").read_text(), re.MULTILINE)
    names = {"AutoModel": hf.AutoModel, "AutoModelForCausalLM": hf.AutoModelForCausalLM}
    return eval(line, {"PeftModel": PeftModel, "FOLDER": adapter, **names}).eval()


def activations_of(model: Classifier, tokens: list[int]) -> torch.Tensor:
    split = Split.of_lists([tokens])
    return model.activations(collate(split, [0], 0))[0]


def test_an_adapter_of_other_modules_is_one_line(folders: dict[str, Path], tmp_path: Path) -> None:
    save(Classifier(adapted(folders[BERT], "lora"), 2), tmp_path, BERT)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    config["target_modules"] = ["dense"]
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(RaptError, match=r"^adapter .*: got weights of other modules than bert has"):
        load(tmp_path, folders[BERT])


def test_a_model_whose_attention_changes_with_length_is_refused(tmp_path: Path) -> None:
    """BigBird reads long texts sparsely, short ones in full."""
    torch.manual_seed(0)
    sparse = {"block_size": 8, "num_random_blocks": 1, "attention_type": "block_sparse"}
    large = {"initializer_range": 0.5, "intermediate_size": 48, "vocab_size": 16}
    model = hf.BigBirdModel(hf.BigBirdConfig(**SIZE, **sparse, **large))
    self_test.check(Classifier(model, 2), 1)
    model.set_attention_type("block_sparse")
    with pytest.raises(RaptError, match=r"^the backbone: got big_bird, whose activations change"):
        self_test.check(Classifier(model, 2), 1, longest=200)


def test_a_model_that_fails_on_long_texts_alone_is_one_line() -> None:
    """LED names its positions otherwise, so that no limit is known."""
    shape = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "attention_window": 8}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    few = {"vocab_size": 16, "max_encoder_position_embeddings": 64}
    encoder: Any = hf.LEDModel(hf.LEDConfig(**shape, **heads, **few)).get_encoder()
    line = r"^train\.max_tokens: got texts of up to 99 tokens, on which led fails \(IndexError: "
    with pytest.raises(RaptError, match=line):
        self_test.check(Classifier(encoder, 2), 1, longest=99)


def test_a_tokenizer_that_does_not_fit_its_model_is_one_line(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders[BERT], tmp_path, dirs_exist_ok=True)
    changes = {
        "config": {"model_type": "deberta-v2"},
        "tokenizer_config": {"tokenizer_class": None},
    }
    for name, change in changes.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RaptError, match=r"got a tokenizer that cannot be loaded \(TypeError: "):
        load_tokenizer(tmp_path)


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
