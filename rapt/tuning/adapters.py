"""Adapters on a backbone, by PEFT: a function for each tuner of rapt.tuning.tuners with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from peft import (
    LoraConfig,
    PeftConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptEncoderConfig,
    PromptLearningConfig,
    PromptTuningConfig,
    PromptTuningInit,
    TaskType,
    get_peft_model,
)
from transformers import PreTrainedModel

from rapt.tuning import backbones
from rapt.tuning.backbones import AnyModel
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.tuning.tuners import BitFit, Lora, PrefixTuning, PromptTuning, PTuning, Tuner


def full(backbone: PreTrainedModel, tuner: Tuner) -> PreTrainedModel:
    """Return the backbone as it is, to be tuned whole.

    Raises:
        RaptError: it is an encoder that is not saved alone.
    """
    if backbone.config.is_encoder_decoder and not backbones.writes(backbone):
        raise RaptError(
            f"tuner: got {tuner.type} for the encoder of {backbone.config.model_type}, which is "
            "not saved alone, expected one of linear-probe, lora, p-tuning, prompt-tuning."
        )
    return backbone


def biases(backbone: PreTrainedModel, tuner: BitFit) -> PreTrainedModel:
    """Return the backbone, of which only the biases learn.

    Raises:
        RaptError: it has none, or is an encoder that is not saved alone.
    """
    full(backbone, tuner).requires_grad_(False)
    found = [w for name, w in backbone.named_parameters() if name.rpartition(".")[2] == "bias"]
    if not found:
        raise RaptError(
            f"tuner: got bitfit for {backbone.config.model_type}, which has no biases, expected "
            "one of lora, p-tuning, prompt-tuning."
        )
    for bias in found:
        bias.requires_grad_(True)
    return backbone


def lora(backbone: PreTrainedModel, tuner: Lora) -> PeftModel:
    """Add LoRA to the modules that PEFT chooses for the backbone."""
    return _adapted(
        backbone,
        tuner.type,
        LoraConfig(
            task_type=_task(backbone),
            r=tuner.r,
            lora_alpha=tuner.alpha,
            lora_dropout=tuner.dropout,
            target_modules=backbones.lora_modules(backbone),
        ),
    )


def prompt_tuning(backbone: PreTrainedModel, tuner: PromptTuning) -> PeftModel:
    """Add virtual tokens that begin as words.

    They are from the vocabulary (Lester et al., 2021): PEFT's default has a quite different norm.
    """
    sampled = PromptTuningInit.SAMPLE_VOCAB
    return _with_virtual_tokens(backbone, tuner, PromptTuningConfig, prompt_tuning_init=sampled)


def p_tuning(backbone: PreTrainedModel, tuner: PTuning) -> PeftModel:
    """Add virtual tokens that a small network generates."""
    return _with_virtual_tokens(
        backbone, tuner, PromptEncoderConfig, encoder_hidden_size=tuner.hidden
    )


def prefix_tuning(backbone: PreTrainedModel, tuner: PrefixTuning) -> PeftModel:
    """Add keys and values in every layer: of one that translates in the decoder's attentions.

    Raises:
        RaptError: the backbone's attention takes no prefix.
    """
    config = backbone.config
    if not (backbones.translates(backbone) or backbones.prefix_goes(backbone) != "nowhere"):
        raise RaptError(
            f"tuner: got prefix-tuning for {config.model_type}, whose attention takes no prefix, "
            "expected one of full, linear-probe, lora, p-tuning, prompt-tuning."
        )
    # The heads need not divide the model's width, as PEFT expects: not T5's or Qwen3's.
    heads = config.num_attention_heads
    each = getattr(config, "head_dim", None) or getattr(config, "d_kv", None)
    shape = _shape(backbone) | {"token_dim": heads * (each or config.hidden_size // heads)}
    prefix = PrefixTuningConfig(task_type=_task(backbone), num_virtual_tokens=tuner.tokens, **shape)
    return _adapted(backbone, tuner.type, prefix)


MAKE: dict[str, Callable[[PreTrainedModel, Any], AnyModel]] = {
    "full": full,
    "bitfit": biases,
    "lora": lora,
    "prompt-tuning": prompt_tuning,
    "p-tuning": p_tuning,
    "prefix-tuning": prefix_tuning,
}


def _adapted(backbone: PreTrainedModel, name: str, config: PeftConfig) -> PeftModel:
    try:
        model: PeftModel = get_peft_model(backbone, config)
    except ValueError as error:
        line = " ".join(str(error).split())
        raise RaptError(
            f"tuner: got {name} for {backbone.config.model_type}, which PEFT does not adapt "
            f"so ({line}), expected another. Take full or linear-probe."
        ) from error
    return model


def _with_virtual_tokens(
    backbone: PreTrainedModel,
    tuner: PromptTuning | PTuning,
    config: type[PromptLearningConfig],
    **more: Any,
) -> PeftModel:
    """Add virtual tokens, which of a model that translates are the encoder's."""
    shape = _shape(backbone) | more
    if backbones.translates(backbone):
        shape["num_transformer_submodules"] = 1
    settings = config(task_type=_task(backbone), num_virtual_tokens=tuner.tokens, **shape)
    return _adapted(backbone, tuner.type, settings)


def _task(backbone: PreTrainedModel) -> TaskType:
    if backbones.translates(backbone):
        return TaskType.SEQ_2_SEQ_LM
    return TaskType.CAUSAL_LM if backbones.writes(backbone) else TaskType.FEATURE_EXTRACTION


def _shape(backbone: PreTrainedModel) -> dict[str, Any]:
    """The backbone's shape, which PEFT reads from some models' configurations alone."""
    return {
        "token_dim": backbones.embedding_size(backbone),
        "num_layers": backbone.config.num_hidden_layers,
        # Only a prefix needs them, and Mamba has none.
        "num_attention_heads": getattr(backbone.config, "num_attention_heads", 1),
    }
