"""QLoRA on a CPU, which bitsandbytes serves too: all but the kernels is as on a GPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModel

from rapt.tuning import loading
from rapt.tuning.config import Run
from rapt.tuning.model import load, load_backbone
from rapt.tuning.train import train_seed, train_seeds
from rapt.tuning.tuners import Lora
from tests.tuning import families

bnb = pytest.importorskip("bitsandbytes.nn.modules", reason="needs rapt[qlora]: make qlora")


@pytest.fixture
def quantized(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of QLoRA on a tiny Llama, where there is a GPU for it or not."""
    monkeypatch.setattr(loading, "_can_quantize", lambda quantize: None)
    monkeypatch.setattr(loading, "_over_gpus", lambda: {"device_map": {"": "cpu"}})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    # A CPU's own layout for scoring has no gradient, and the next seed shares the weights.
    monkeypatch.setattr(bnb, "has_avx512bf16", lambda: False)
    folder = families.make("llama", tmp_path / "llama")
    return replace(
        run,
        backbone=folder,
        tuner=Lora(learning_rate=0.02, quantize="4bit"),
        train=run.train.model_copy(update={"epochs": 10, "precision": "bf16"}),
    )


def layer_of(model: Any) -> Any:
    return model.layers[0].self_attn.q_proj


def test_the_backbone_is_held_in_four_bits(quantized: Run) -> None:
    weight = layer_of(load_backbone(quantized.backbone, "4bit", "bf16")[0]).weight
    full = layer_of(load_backbone(quantized.backbone)[0]).weight
    assert (weight.dtype, weight.quant_state.quant_type) == (torch.uint8, "nf4")
    assert weight.numel() == full.numel() // 2
    assert not weight.requires_grad


def test_seeds_learn_on_the_same_quantized_weights(quantized: Run) -> None:
    runs = [replace(quantized, k=k, adapter=quantized.adapter / str(k)) for k in (0, 1)]
    together = train_seeds(runs)
    for result in together:
        result.checkpoint.unlink()
        assert result.result.curves["task_loss"][-1] < 0.7 * result.result.curves["task_loss"][0]
        assert result.result.metrics["accuracy"] > 0.9
    alone = replace(runs[1], adapter=quantized.adapter / "alone")
    assert train_seed(alone) == together[1].result


def test_the_adapter_serves_without_this_project(quantized: Run) -> None:
    train_seed(quantized)
    weights = load_file(quantized.adapter / "adapter_model.safetensors")
    assert weights
    assert all("lora_" in name for name in weights)
    bare = AutoModel.from_pretrained(quantized.backbone).eval()
    served = load(quantized.adapter, quantized.backbone)
    tokens = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        before = bare(input_ids=tokens).last_hidden_state
        model = PeftModel.from_pretrained(bare, quantized.adapter).eval()
        after = model(input_ids=tokens).last_hidden_state
        torch.testing.assert_close(served.backbone(input_ids=tokens).last_hidden_state, after)
    assert (after - before).abs().max() > 0.1
