"""Common interface to encoders, decoders and encoder-decoders: activations of tokens.

Of an encoder-decoder (T5) that classifies only the encoder is used: the head pools its activations
(RAPT). One that writes has its decoder as well, and its activations are the encoder's all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, Literal

import torch
from peft import PeftModel, PeftType
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from rapt.tuning.inputs import Batch
from rapt.utils.errors import RaptError

AnyModel = PreTrainedModel | PeftModel  # as it is, or with an adapter
# A layer's projections to queries and values, as the models that PEFT does not know name them.
MAMBA_PROJECTIONS = {"in_proj", "x_proj"}
QUERIES_AND_VALUES = re.compile(r"(q|v|query|value)(_proj|_lin)?")


def writes(model: AnyModel) -> bool:
    """Return whether a model has a head that writes text."""
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    return base.get_output_embeddings() is not None


def translates(model: AnyModel) -> bool:
    """Return whether a model writes by a decoder of its own, after an encoder has read."""
    return writes(model) and bool(model.config.is_encoder_decoder)


def lora_modules(model: PreTrainedModel) -> list[str] | str:
    """Return the modules that LoRA adapts: PEFT's choice for this type of model, if it has them."""
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    chosen = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.get(model.config.model_type, [])
    if names & set(chosen):
        return list(chosen)
    # Of all linear modules PEFT refuses some of Mamba's.
    return sorted(filter(QUERIES_AND_VALUES.fullmatch, names)) or (
        sorted(names & MAMBA_PROJECTIONS) or "all-linear"
    )


def first_position(model: PreTrainedModel) -> int:
    """Return the position of the first token; RoBERTa starts after the padding position."""
    for name, module in model.named_modules():
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            return int(module.padding_idx) + 1
    return 0


def prefix_goes(model: PreTrainedModel) -> Literal["inputs", "attention", "nowhere"]:
    """Return where a prefix's keys and values enter.

    Among the model's inputs, at each attention (T5, which PEFT does not support), or nowhere.
    """
    if "past_key_values" in signature(model.forward).parameters:
        return "inputs"
    return "attention" if hasattr(getattr(model, "encoder", None), "block") else "nowhere"


def virtual_tokens(model: AnyModel) -> int:
    """Return the number of virtual tokens, or of tokens of a prefix, before a text."""
    tuner = model.active_peft_config if isinstance(model, PeftModel) else None
    return tuner.num_virtual_tokens if tuner and tuner.is_prompt_learning else 0


def most_tokens(model: AnyModel, *, written: bool = False) -> int | None:
    """Return the most tokens of a text, virtual ones excluded; None: no limit (T5).

    A model that translates has as many positions again for the text that is `written`.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions < 1:  # XLNet's is -1
        return None
    # A prefix takes the decoder's positions, virtual tokens take the encoder's.
    taken = virtual_tokens(model)
    if translates(model) and written != has_prefix(model):
        taken = 0
    return max(0, int(positions) - first_position(without_head(model)) - taken)


def embedding_size(model: AnyModel) -> int:
    """Return the dimension of a model's input embeddings."""
    return int(without_head(model).get_input_embeddings().weight.shape[1])


def state_size(model: AnyModel) -> int:
    """Return the dimension of a model's last hidden state, which OPT-350m projects to another."""
    hidden = int(model.config.hidden_size)
    if embedding_size(model) == hidden:
        return hidden
    bare = without_head(model)
    was_training = bare.training
    with torch.no_grad():
        states = bare.eval()(torch.tensor([[3, 4]], device=model.device)).last_hidden_state
    bare.train(was_training)
    return int(states.shape[-1])


def reads_alone(model: AnyModel, batch: Batch) -> bool:
    """Return whether the backbone reads a batch of tokens without virtual tokens or a prefix."""
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    written = {"labels": batch.targets} if translates(base) else {}
    try:
        base(input_ids=batch.tokens, attention_mask=batch.attention, **written)
    except (MemoryError, torch.OutOfMemoryError):  # says nothing of the model
        raise
    except Exception:  # as each foreign model fails in its own way
        return False
    return True


def without_head(model: AnyModel) -> Any:
    """Return the backbone inside PEFT, without a head; of one that translates the encoder."""
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    if translates(base):
        return base.get_encoder()
    return base.base_model if writes(base) else base


def check_vectors(model: AnyModel, vectors: Tensor | None) -> None:
    """Check that vectors (n, d) can replace words among a model's input embeddings.

    Raises:
        RaptError: they have another dimension, so they come from another model.
    """
    size = embedding_size(model)
    if vectors is not None and vectors.shape[1] != size:
        raise RaptError(
            f"vectors: got dimension {vectors.shape[1]}, expected {size}, that of the backbone's "
            "input embeddings. The embedding model has to be the backbone."
        )


def activations(model: AnyModel, batch: Batch) -> Tensor:
    """Compute the last hidden state of each of the batch's own tokens, float32 (batch, length, h).

    Virtual tokens precede the text and its special tokens, and are dropped from the output. Of a
    model that translates they stay, as its decoder reads them: `of_virtual_tokens`. A batch may be
    padded on either side. It is computed with its padding on the right, where every family counts
    positions from the first token on.
    """
    inputs = {
        "input_ids": batch.tokens,
        "attention_mask": batch.attention,
        "token_type_ids": batch.types,
    }
    bare = without_head(model)
    if batch.vectors is not None:
        inputs["inputs_embeds"] = _embedded(bare, inputs.pop("input_ids"), batch.vectors)
    if not batch.on_the_left:
        return _forward(model, bare, inputs)
    order = batch.attention.argsort(dim=1, descending=True, stable=True)
    moved = _forward(model, bare, {name: _along(x, order) for name, x in inputs.items()})
    return _along(moved, order.argsort(dim=1))


def of_virtual_tokens(model: AnyModel) -> int:
    """Return how many of a text's `activations` are those of virtual tokens: the first."""
    is_prefix = has_prefix(model)
    return 0 if is_prefix or not translates(model) else virtual_tokens(model)


def has_prefix(model: AnyModel) -> bool:
    """Return whether a prefix stands before a text, in every layer."""
    tuner = model.active_peft_config if isinstance(model, PeftModel) else None
    return tuner is not None and tuner.peft_type == PeftType.PREFIX_TUNING


def with_virtual_tokens(model: PeftModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the input embeddings of a batch with its virtual tokens first, and their attention.

    They are (batch, virtual tokens + length, h) and (batch, virtual tokens + length).
    """
    embedded = without_head(model).get_input_embeddings()(batch.tokens)
    learned: Any = model.get_prompt(len(batch.tokens))
    both = torch.cat((learned.to(embedded.dtype), embedded), dim=1)
    return both, _before(batch.attention, 1, virtual_tokens(model))


def translated(model: AnyModel, states: Tensor, batch: Batch) -> Tensor:
    """Compute the decoder's logits of a batch's targets, float32 (batch, length, vocabulary).

    Args:
        model: one that translates. A prefix is one of its decoder's, as in PEFT.
        states: its `activations` of the batch.
        batch: with `targets`.
    """
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    count = of_virtual_tokens(model)
    learned: Any = model
    prefix = {"past_key_values": learned.get_prompt(len(states))} if has_prefix(model) else {}
    output = base(
        encoder_outputs=BaseModelOutput(states.to(base.dtype)),
        attention_mask=_before(batch.attention, 1, count),
        labels=batch.targets,
        **prefix,
    )
    return output.logits.float()


def _along(values: Tensor, order: Tensor) -> Tensor:
    """Reorder the positions of (batch, length) or (batch, length, h) by (batch, length)."""
    return values.take_along_dim(order if values.ndim == 2 else order[..., None], dim=1)


def _embedded(bare: Any, tokens: Tensor, vectors: Tensor) -> Tensor:
    """Compute input embeddings (batch, length, h), for negative tokens from `vectors`."""
    layer = bare.get_input_embeddings()
    embedded = layer(tokens.clamp(min=0))
    scaled = vectors.to(embedded.dtype) * getattr(layer, "embed_scale", 1.0)  # Gemma's, BART's
    return torch.where((tokens < 0)[..., None], scaled, embedded)


def _forward(model: Any, bare: Any, inputs: dict[str, Any]) -> Tensor:
    """Compute `activations` of a batch padded on the right; `bare` is the backbone inside PEFT.

    Virtual tokens are inserted here, not by PEFT, which drops the segments of a pair.
    """
    if getattr(model.config, "type_vocab_size", None) in (None, 0, 1):
        del inputs["token_type_ids"]
    count, of_decoder = virtual_tokens(model), translates(model) and has_prefix(model)
    if not count or of_decoder:
        return bare(**inputs).last_hidden_state.float()
    rows = len(inputs["attention_mask"])
    inputs["attention_mask"] = _before(inputs["attention_mask"], 1, count)
    learned: Any = model.get_prompt(rows)
    if has_prefix(model):
        first = first_position(bare)
        if first and "inputs_embeds" in inputs:  # RoBERTa counts a prefix before tokens alone
            start, length = first + count, inputs["inputs_embeds"].shape[1]
            inputs["position_ids"] = torch.arange(start, start + length, device=model.device)[None]
        if prefix_goes(bare) == "inputs":
            return bare(**inputs, past_key_values=learned).last_hidden_state.float()
        with _prefixed(bare, learned):
            return bare(**inputs).last_hidden_state.float()
    if "input_ids" in inputs:
        inputs["inputs_embeds"] = bare.get_input_embeddings()(inputs.pop("input_ids"))
    embedded = inputs["inputs_embeds"]
    inputs["inputs_embeds"] = torch.cat((learned.to(embedded.dtype), embedded), dim=1)
    if "token_type_ids" in inputs:
        inputs["token_type_ids"] = _before(inputs["token_type_ids"], 0, count)
    kept = 0 if translates(model) else count
    return bare(**inputs).last_hidden_state[:, kept:].float()


def _before(values: Tensor, fill: int, count: int) -> Tensor:
    """Insert `count` columns of `fill` before the first one."""
    return torch.cat((values.new_full((len(values), count), fill), values), dim=1)


@contextmanager
def _prefixed(bare: Any, cache: Any) -> Iterator[None]:
    """Pass the cache to every self-attention, as T5's encoder drops it from its inputs."""

    def give(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"past_key_values": cache}

    hooks = [
        block.layer[0].SelfAttention.register_forward_pre_hook(give, with_kwargs=True)
        for block in bare.encoder.block
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
