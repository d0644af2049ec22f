"""A backbone with its adapter, the task head and, while it is trained, the reconstruction head."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rapt import models
from rapt.tuning.config import Lora
from rapt.tuning.inputs import Batch, pooled, pooled_plain


def load_backbone(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and its fast tokenizer, from safetensors alone."""
    models.quiet()
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*")  # PEFT's own affair
    backbone = AutoModel.from_pretrained(folder, use_safetensors=True)
    return backbone, AutoTokenizer.from_pretrained(folder, add_prefix_space=True)


def adapt(backbone: PreTrainedModel, tuner: Lora) -> PeftModel:
    """The backbone with a fresh adapter."""
    config = LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION,
        r=tuner.r,
        lora_alpha=tuner.alpha,
        lora_dropout=tuner.dropout,
    )
    return get_peft_model(backbone, config)


class Classifier(nn.Module):
    """Classes from the mean activation of the text's own tokens (METHOD: the task head)."""

    def __init__(self, backbone: PeftModel, classes: int) -> None:
        """Put a fresh head on an adapted backbone."""
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.config.hidden_size, classes)

    def activations(self, batch: Batch) -> Tensor:
        """The last hidden states (batch, length, h)."""
        inputs = {"input_ids": batch.tokens, "attention_mask": batch.attention}
        if getattr(self.backbone.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = batch.types
        return self.backbone(**inputs).last_hidden_state

    def classify(self, activations: Tensor, batch: Batch) -> Tensor:
        """Logits (batch, classes)."""
        return self.head(pooled(activations, batch.text))


class ReconstructionHead(nn.Module):
    """Plain words from their own activations: W_down · W_up · g (RAPT)."""

    def __init__(self, hidden: int, size: int, vocabulary: int) -> None:
        """Make fresh weights of (size, hidden) and (vocabulary, size)."""
        super().__init__()
        self.up = nn.Linear(hidden, size, bias=False)
        self.down = nn.Linear(size, vocabulary, bias=False)

    def forward(self, activations: Tensor, plain: Tensor, count: int) -> Tensor:
        """Logits (batch, count, vocabulary) of the `count` plain words."""
        return self.down(self.up(pooled_plain(activations, plain, count)))


def save(model: Classifier, folder: Path, backbone_name: str) -> None:
    """Write the adapter in PEFT's format and the task head; equal weights give equal bytes."""
    model.backbone.save_pretrained(str(folder))
    (folder / "README.md").unlink()  # PEFT's blank model card
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    # PEFT writes sets in the order of their hashes, and the folder of this machine.
    config["target_modules"] = sorted(config["target_modules"])
    config["base_model_name_or_path"] = backbone_name
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    head = {name: value.contiguous().cpu() for name, value in model.head.state_dict().items()}
    save_file(head, folder / "head.safetensors")


def load(folder: Path, backbone: PreTrainedModel) -> Classifier:
    """The model that `save` wrote, on its backbone."""
    head = load_file(folder / "head.safetensors")
    model = Classifier(PeftModel.from_pretrained(backbone, folder), len(head["bias"]))
    model.head.load_state_dict(head)
    return model.eval()


def device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
