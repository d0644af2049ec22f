"""A backbone with its adapter, the task head and, during training, the reconstruction head."""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rapt.tuning import backbones, bilstm, loading
from rapt.tuning.backbones import AnyModel
from rapt.tuning.bilstm import BiLstmModel
from rapt.tuning.config import BiLstm, Precision
from rapt.tuning.inputs import NO_TOKEN, Batch, pooled
from rapt.tuning.tuners import Tuner
from rapt.utils.device import device
from rapt.utils.errors import RaptError

ADAPTER = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
HEAD = "head.safetensors"
CARD = """This adapter is of a part of its backbone. PEFT loads it by this call alone:

    {call}

On the whole backbone PEFT finds no place for the weights, and takes fresh ones.
"""
# Metadata of the head of a frozen backbone, which tells it from one whose adapter is lost.
FROZEN = {"backbone": "frozen"}


def load_backbone(
    folder: Path,
    quantize: Literal["4bit"] | None = None,
    frozen: Precision | None = None,
    encoder: BiLstm | None = None,
    writes: bool = False,
    causal: bool = False,
    layer: int = 0,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model, or a fresh encoder on its input embeddings, and its fast tokenizer.

    Arguments and errors are those of `loading.load_model` and `loading.begin_after`.
    """
    model = loading.load_model(folder, quantize, frozen, writes, causal)
    loading.begin_after(model, layer)
    if encoder:
        model = bilstm.fresh(model, encoder)
    return model, loading.load_tokenizer(folder)


def adapt(backbone: PreTrainedModel, tuner: Tuner) -> AnyModel:
    """Return the backbone with a fresh adapter, if the tuner has one.

    Raises:
        RaptError: the backbone does not support such an adapter.
    """
    if isinstance(backbone, BiLstmModel) and not tuner.takes_fresh():
        raise RaptError(
            f"tuner: got {tuner.type} for a bilstm, whose weights are fresh, expected full."
        )
    return tuner.adapt(backbone)


class TaskModel(nn.Module, ABC):
    """An adapted backbone with what answers: a head beside it, or its own.

    Attributes:
        owns_head: whether the head is no part of the backbone, and is saved beside it.
        head: from activations to what is answered.
    """

    owns_head: ClassVar[bool]
    head: nn.Module

    def __init__(self, backbone: AnyModel, precision: Precision = "float32") -> None:
        """Take an adapted backbone, which computes in `precision`."""
        super().__init__()
        self.backbone, self.precision = backbone, precision

    @property
    @abstractmethod
    def width(self) -> int:
        """The dimension of an activation."""

    @property
    def place(self) -> torch.device:
        """Where the head reads activations."""
        return next(self.head.parameters()).device

    def activations(self, batch: Batch) -> Tensor:
        """Compute the last hidden states, float32 (batch, length, h)."""
        # No scaling of the loss: bfloat16 has the range of float32.
        low = self.precision == "bf16"
        with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=low):
            states = backbones.activations(self.backbone, batch)
        return states.to(batch.tokens.device)  # of a model on several GPUs it may be another

    def own(self, activations: Tensor) -> Tensor:
        """Return the activations of the texts' own tokens (batch, length, h)."""
        return activations[:, backbones.of_virtual_tokens(self.backbone) :]

    @abstractmethod
    def scores(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute what decides the answer, (batch, outputs)."""

    @abstractmethod
    def loss(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute the task's mean loss over the batch."""

    def move_own(self, device: torch.device) -> None:
        """Move what is no part of the backbone to a device."""


class Pooled(TaskModel):
    """Answers from the mean activation of the text's own tokens (METHOD: the task head)."""

    owns_head = True

    def __init__(
        self,
        backbone: AnyModel,
        head: Callable[[int], nn.Module],
        criterion: Callable[[Tensor, Tensor], Tensor],
        precision: Precision = "float32",
    ) -> None:
        """Add a fresh head, in float32.

        Args:
            backbone: an adapted one.
            head: makes the head, for activations of some dimension.
            criterion: the mean loss of the head's outputs (batch, outputs), given what the release
                has as targets (batch,).
            precision: of the backbone's computations.
        """
        super().__init__(backbone, precision)
        self._width = backbones.state_size(backbone)
        self.head, self._criterion = head(self._width), criterion

    @property
    def width(self) -> int:
        """The dimension of an activation."""
        return self._width

    def scores(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute the head's outputs, (batch, outputs)."""
        outputs: Tensor = self.head(pooled(activations, batch.text))
        return outputs

    def loss(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute the task's mean loss over the batch."""
        return self._criterion(self.scores(activations, batch), batch.labels)

    def move_own(self, device: torch.device) -> None:
        """Move the head to a device."""
        self.head.to(device)


class Classifier(Pooled):
    """Classes, by a linear head."""

    def __init__(self, backbone: AnyModel, classes: int, precision: Precision = "float32") -> None:
        """Add a fresh head to an adapted backbone that computes in `precision`."""
        super().__init__(backbone, lambda h: nn.Linear(h, classes), cross_entropy, precision)


class Writer(TaskModel):
    """A text that a language model writes after a source."""

    owns_head = False

    @property
    def head(self) -> nn.Linear:  # type: ignore[override]
        """The language model's own, from activations to its vocabulary."""
        head: nn.Linear = self.backbone.get_output_embeddings()
        return head

    @property
    def width(self) -> int:
        """The dimension of an activation."""
        return self.head.in_features

    def scores(self, activations: Tensor, batch: Batch) -> Tensor:
        """Refuse: a text is written token by token (`rapt.tuning.writing`)."""
        raise NotImplementedError  # who scores asks the kind of task, which writes

    def loss(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute the negative log-likelihood of a token of each text, on average over the texts.

        Every text counts as much as another, so that a step's parts add up to its batch.
        """
        if batch.targets is None:
            wanted = batch.text[:, 1:]
            states = activations[:, :-1][wanted].to(self.head.weight.device)
            logits = self.head(states.to(self.head.weight.dtype)).float()
            targets = batch.tokens[:, 1:][wanted].to(logits.device)
        else:
            wanted = batch.targets != NO_TOKEN
            low = self.precision == "bf16"
            with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=low):
                logits = backbones.translated(self.backbone, activations, batch)[wanted]
            targets = batch.targets[wanted].to(logits.device)
        each = cross_entropy(logits, targets, reduction="none")
        texts = wanted.nonzero()[:, 0].to(each.device)
        sums = each.new_zeros(len(wanted)).index_add(0, texts, each)
        return (sums / wanted.sum(1).clamp(min=1).to(sums.device)).mean().to(activations.device)


class Chooser(Writer):
    """The letter of a choice, as the token that a language model writes after the prompt."""

    def __init__(
        self,
        backbone: AnyModel,
        letters: Sequence[int],
        precision: Precision = "float32",
    ) -> None:
        """Take an adapted language model, which has a head, and the token of each letter."""
        super().__init__(backbone, precision)
        self.register_buffer("letters", torch.tensor(letters), persistent=False)
        self.letters: Tensor

    def next_token(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute the logits of the token after each prompt, float32 (batch, vocabulary)."""
        places = torch.arange(batch.text.shape[1], device=batch.text.device)
        last = (places * batch.text).argmax(1)  # of the text: some tokenizers end it with a token
        states = activations[torch.arange(len(last), device=last.device), last]
        head = self.head
        states, letters = (each.to(head.weight.device) for each in (states, self.letters))
        logits = head(states.to(head.weight.dtype)).float()
        # bfloat16 rounds letters that are alike to the same number, and the first would win.
        weight, bias = (_rows(values, letters) for values in (head.weight, head.bias))
        assert weight is not None
        return logits.index_copy(1, letters, linear(states, weight, bias)).to(activations.device)

    def scores(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute the logits of the letters, and the highest one of all other tokens."""
        logits = self.next_token(activations, batch)
        letters = logits[:, self.letters]
        others = logits.index_fill(1, self.letters, -torch.inf)
        return torch.cat((letters, others.amax(1, keepdim=True)), dim=1)

    def loss(self, activations: Tensor, batch: Batch) -> Tensor:
        """Compute the mean negative log-likelihood of the letter among all tokens."""
        return cross_entropy(self.next_token(activations, batch), self.letters[batch.labels])

    def move_own(self, device: torch.device) -> None:
        """Move the letters to a device."""
        self.letters = self.letters.to(device)


def _rows(values: Tensor | None, rows: Tensor) -> Tensor | None:
    """Return some rows in float32."""
    return None if values is None else values[rows].float()


class ReconstructionHead(nn.Module):
    """Predicts words from their activations: W_down · W_up · g (RAPT)."""

    def __init__(self, hidden: int, size: int, vocabulary: int) -> None:
        """Make fresh weights of (size, hidden) and (vocabulary, size)."""
        super().__init__()
        self.up = nn.Linear(hidden, size, bias=False)
        self.down = nn.Linear(size, vocabulary, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        """Compute logits (…, vocabulary) from the activations of words (…, h)."""
        return self.down(self.up(words))


def save(model: TaskModel, folder: Path, backbone_name: str) -> None:
    """Write the adapter in PEFT's format (full fine-tuning: the model in that of Transformers).

    The task head is written beside it, if it is not the model's own; a linear probe has only this.
    Equal weights give equal bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    learnt = any(weight.requires_grad for weight in model.backbone.parameters())
    if isinstance(model.backbone, PeftModel):
        _save_adapter(model.backbone, folder, backbone_name)
    elif learnt:
        model.backbone.save_pretrained(folder)
    head = model.head.state_dict() if model.owns_head else {}
    if head or not learnt:
        weights = {name: value.contiguous().cpu() for name, value in head.items()}
        save_file(weights, folder / HEAD, None if learnt else FROZEN)


def _save_adapter(adapted: PeftModel, folder: Path, backbone_name: str) -> None:
    # Embeddings are never resized here; PEFT would query the hub to find out.
    adapted.save_pretrained(str(folder), save_embedding_layers=False)
    (folder / "README.md").unlink()  # PEFT's blank model card
    if call := _call(adapted, backbone_name):
        (folder / "README.md").write_text(CARD.format(call=call))
    path = folder / ADAPTER
    config = json.loads(path.read_text())
    # PEFT writes sets in hash order, and this machine's folder.
    if "target_modules" in config:
        config["target_modules"] = sorted(config["target_modules"])
    config["base_model_name_or_path"] = backbone_name
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def _call(adapted: PeftModel, backbone_name: str) -> str | None:
    """Return the call that loads an adapter of a part of a model; None: it is of a whole one."""
    base: Any = adapted.get_base_model()
    place, name = getattr(base, "place", None), json.dumps(backbone_name)
    if place is None:
        return None
    if not backbones.writes(adapted):
        return f"PeftModel.from_pretrained(AutoModel.from_pretrained({name}).{place}, FOLDER)"
    if adapted.active_peft_config.is_prompt_learning:
        return None
    names = f"{{r'^{base.base_model_prefix}\\.': '{place}.'}}"
    whole = f"AutoModelForCausalLM.from_pretrained({name})"
    return f"PeftModel.from_pretrained({whole}, FOLDER, key_mapping={names})"


def load(
    folder: Path,
    backbone: Path,
    quantize: Literal["4bit"] | None = None,
    precision: Precision = "float32",
    make: Callable[[AnyModel], TaskModel] | None = None,
    writes: bool = False,
    layer: int = 0,
) -> TaskModel:
    """Load the model that `save` wrote, on the backbone in a folder unless all of it was tuned.

    Args:
        folder: of the adapter.
        backbone: folder of the backbone.
        quantize: as it was tuned.
        precision: of the backbone's computations.
        make: makes the model of an adapted backbone; None: a classifier.
        writes: whether the backbone has a head that writes.
        layer: how many layers the user runs; it begins after them.

    Raises:
        RaptError: an adapter has no weights in safetensors; PEFT would take pickled ones or ask the
            hub. Or the backbone is not as `loading.load_model` expects.
    """
    is_frozen, head = False, dict[str, Tensor]()
    if not writes or (folder / HEAD).is_file():
        head = load_file(folder / HEAD)
        with safe_open(folder / HEAD, "pt") as file:
            is_frozen = file.metadata() == FROZEN
    is_adapter = (folder / ADAPTER).is_file()
    if is_adapter and not (folder / WEIGHTS).is_file():
        raise RaptError(f"{folder}: got no {WEIGHTS} in it, expected an adapter in safetensors.")
    tuned: AnyModel
    if is_adapter or is_frozen:
        tuned = loading.load_model(backbone, quantize, precision, writes)
        loading.begin_after(tuned, layer)
    else:
        tuned = loading.load_model(backbone if layer else folder, writes=writes)
        if layer:  # the folder holds the rest of a model alone
            loading.begin_after(tuned, layer)
            tuned.load_state_dict(load_file(folder / "model.safetensors"))
    if is_adapter:
        tuned = _with_adapter(tuned, folder)
    model = make(tuned) if make else Classifier(tuned, len(head["bias"]), precision)
    if model.owns_head:
        model.head.load_state_dict(head)
    return placed(model.eval())


def _with_adapter(backbone: PreTrainedModel, folder: Path) -> PeftModel:
    try:
        with warnings.catch_warnings():
            # PEFT leaves LoRA as it starts where a file has no weights for it.
            warnings.filterwarnings("error", message="Found missing adapter keys")
            return PeftModel.from_pretrained(backbone, folder)
    except UserWarning:
        raise RaptError(
            f"adapter {folder}: got weights of other modules than {backbone.config.model_type} "
            "has, expected those of its backbone. Tune it again."
        ) from None


def placed(model: TaskModel) -> TaskModel:
    """Move the model to `device`; a backbone that was loaded onto GPUs stays there."""
    if hasattr(model.backbone, "hf_device_map"):
        model.move_own(device())
    else:
        model.to(device())
    return model
