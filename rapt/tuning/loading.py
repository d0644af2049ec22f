"""Load a backbone and its tokenizer, and change it before an adapter is added.

A language model keeps its head, and every other model is loaded without one.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel, prepare_model_for_kbit_training
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForTextEncoding,
    BitsAndBytesConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    MODEL_FOR_TEXT_ENCODING_MAPPING,
)

from rapt import models
from rapt.tuning.backbones import AnyModel, has_prefix, without_head, writes
from rapt.tuning.bilstm import BiLstmConfig, BiLstmModel
from rapt.tuning.config import Precision
from rapt.utils.device import device
from rapt.utils.errors import RaptError


def load_model(
    folder: Path,
    quantize: Literal["4bit"] | None = None,
    frozen: Precision | None = None,
    writes: bool = False,
    causal: bool = False,
) -> PreTrainedModel:
    """Load a model without its head, or a tuned BiLSTM, from safetensors only.

    Args:
        folder: the model's folder.
        quantize: 4bit: NF4 weights by bitsandbytes (QLoRA, Dettmers et al., 2023), frozen, with
            bfloat16 as compute type.
        frozen: type of the weights if they are frozen, in which case they may be spread over
            several GPUs. None: they learn, in float32.
        writes: whether to load a language model, with its head.
        causal: whether that may have no encoder.

    Raises:
        RaptError: weights are missing, or the model cannot be quantized on this machine, or is
            too large, or does not write text.
    """
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*")  # internal to PEFT
    warnings.filterwarnings("ignore", message=".*fan_in_fan_out.*")  # PEFT corrects it itself
    if quantize:
        _can_quantize(quantize)
    if json.loads((folder / "config.json").read_text())["model_type"] == BiLstmConfig.model_type:
        return _whole(models.load(BiLstmModel, folder, dtype=torch.float32))
    config, where = models.config(folder), _over_gpus() if frozen else {}
    if not quantize:
        dtype = torch.bfloat16 if frozen == "bf16" else torch.float32
        load = partial(models.load, folder=folder, dtype=dtype, **where)
        return _whole(_language_model(config, load, causal) if writes else bare_model(config, load))
    nf4 = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    where = where or {"device_map": {"": device()}}
    load = partial(models.load, folder=folder, quantization_config=nf4, **where)
    model = _language_model(config, load, causal) if writes else bare_model(config, load)
    return prepare_model_for_kbit_training(_whole(model), use_gradient_checkpointing=False)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load a model's fast tokenizer; if it has no padding token (GPT-2), it pads with EOS.

    Raises:
        RaptError: it is not a fast one, which maps tokens to words, or has no token to pad with.
    """
    tokenizer = models.tokenizer(folder, add_prefix_space=True)
    if not tokenizer.is_fast:
        name = type(tokenizer).__name__
        raise RaptError(f"the backbone's tokenizer: got {name}, expected one with tokenizer.json.")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token  # any token will do, as it is never attended to
    if tokenizer.pad_token is None:
        raise RaptError(
            "the backbone's tokenizer: got no padding token and no end-of-text token, expected "
            "one of them. Name one in its tokenizer_config.json."
        )
    return tokenizer


def bare_model(config: PretrainedConfig, load: Callable[[Any], PreTrainedModel]) -> PreTrainedModel:
    """Make the model without a head that reads texts: an encoder-decoder's encoder.

    Of one that sees images too (Gemma 3) it is the language model inside.

    Args:
        config: the model's.
        load: makes a model, given its class.
    """
    # There are classes of some encoders alone, as T5's.
    has_own = type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING
    model = _of_text(load(AutoModelForTextEncoding if has_own else AutoModel))
    if has_own:
        model.config.is_encoder_decoder = False  # UMT5's class leaves it true
    if not model.config.is_encoder_decoder:
        return model
    encoder: Any = model.get_encoder()
    encoder.place = "get_encoder()"
    return encoder


def _language_model(
    config: PretrainedConfig, load: Callable[[Any], PreTrainedModel], causal: bool
) -> PreTrainedModel:
    """Make a language model; of a causal one the head's output must be its logits."""
    kind = config.model_type
    if causal and config.is_encoder_decoder:
        raise RaptError(
            f"the backbone: got {kind}, expected a causal language model, as a letter is the token "
            "after the prompt. Take another."
        )
    if config.is_encoder_decoder and type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
        if getattr(config, "decoder_start_token_id", None) is None:
            raise RaptError(
                f"the backbone: got {kind} without decoder_start_token_id in its config.json, "
                "expected the token that begins what its decoder writes. Add it: T5's is that of "
                "padding."
            )
        return load(AutoModelForSeq2SeqLM)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise RaptError(
            f"the backbone: got {kind}, expected a causal language model. Take another."
        )
    model = _of_text(load(AutoModelForCausalLM))
    tokens = torch.tensor([[3, 4], [3, 5]], device=model.device)
    with torch.no_grad():
        states = without_head(model)(tokens).last_hidden_state
        logits, by_head = model(tokens).logits, model.get_output_embeddings()(states)
    if not torch.allclose(states[0, 0].float(), states[1, 0].float(), atol=1e-2):
        raise RaptError(
            f"the backbone: got {kind}, which reads the words to come, expected a causal language "
            "model. Take another."
        )
    if not torch.allclose(logits.float(), by_head.float().to(logits.device), atol=1e-2):
        raise RaptError(
            f"the backbone: got {kind}, which changes its head's logits, expected one that does "
            "not. Take another."
        )
    return model


def _of_text(model: PreTrainedModel) -> PreTrainedModel:
    """Return the language model alone, with its head if it has one, of a model that sees images."""
    config, kind = model.config.get_text_config(), model.config.model_type
    if type(config) is type(model.config) or model.config.is_encoder_decoder:
        return model
    inside = (part for part in model.named_modules() if isinstance(part[1], PreTrainedModel))
    place, text = next(
        (part for part in inside if type(part[1].config) is type(config)), ("", None)
    )
    if text is None or (writes(model) and type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING):
        raise RaptError(
            f"the backbone: got {kind}, whose language model Transformers does not know alone, "
            "expected one of text. Take another."
        )
    if writes(model):
        with torch.device("meta"):
            whole = AutoModelForCausalLM.from_config(config)
        setattr(whole, whole.base_model_prefix, text)
        whole.set_output_embeddings(model.get_output_embeddings())
        text = whole
    text.place = place
    for name in {"hf_device_map", "is_loaded_in_4bit"} & set(vars(model)):
        setattr(text, name, getattr(model, name))
    return text


def _over_gpus() -> dict[str, Any]:
    """Return the arguments by which Accelerate spreads a model over several GPUs, if there are."""
    # Each is filled by half, as the rest is for activations. What the first can train stays there.
    gpus = range(torch.cuda.device_count())
    if len(gpus) < 2 or device() != torch.device("cuda"):  # or one of them is named
        return {}
    room = {gpu: torch.cuda.mem_get_info(gpu)[0] // 2 for gpu in gpus}
    return {"device_map": "sequential", "max_memory": room | {"cpu": 0}}


def _whole(model: PreTrainedModel) -> PreTrainedModel:
    """Return the model without a decoder's cache, after checking that it is all on the GPUs."""
    places = set(getattr(model, "hf_device_map", {}).values())
    if places & {"cpu", "disk"}:
        raise RaptError(
            "the backbone: got one larger than half the memory of "
            f"{torch.cuda.device_count()} GPUs, expected a smaller one. Set train.precision "
            "bf16 or quantize 4bit, or use more GPUs."
        )
    model.config.use_cache = False  # nothing is generated
    return model


def _can_quantize(quantize: str) -> None:
    if device().type != "cuda":
        raise RaptError(f"quantize: got {quantize!r}, expected null without a CUDA device.")
    if find_spec("bitsandbytes") is None:
        raise RaptError(
            f"quantize: got {quantize!r}, expected null without bitsandbytes. "
            "Try: pip install 'rapt[qlora]'"
        )


def sharing_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Copy a frozen model's modules, which an adapter changes, but share its parameters."""
    return deepcopy(model, {id(weight): weight for weight in model.parameters()})


def begin_after(model: PreTrainedModel, layer: int) -> None:
    """Let an encoder begin after its first layers: its input embeddings are then their states.

    Special tokens keep their word embeddings.

    Raises:
        RaptError: its layers are not BERT's, or none would be left.
    """
    if not layer:
        return
    inside: Any = model
    layers = getattr(getattr(inside, "encoder", None), "layer", None)
    if layers is None or not hasattr(inside, "embeddings"):
        raise RaptError(
            f"the backbone: got {model.config.model_type} for hidden states, expected one whose "
            "layers are BERT's."
        )
    if layer >= len(layers):
        raise RaptError(
            f"layer: got {layer}, expected at most {len(layers) - 1}: the backbone has "
            f"{len(layers)} layers, and the provider's part needs one."
        )
    inside.encoder.layer = layers[layer:]
    inside.embeddings = States(inside.embeddings.word_embeddings)
    model.config.num_hidden_layers -= layer


class States(torch.nn.Module):
    """In the place of an encoder's embeddings: takes hidden states as they are."""

    def __init__(self, words: torch.nn.Embedding) -> None:
        """Keep the embeddings of special tokens."""
        super().__init__()
        self.word_embeddings = words

    def forward(
        self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **_: Any
    ) -> Tensor:
        """Return the states, (b, n, h)."""
        if inputs_embeds is not None:
            return inputs_embeds
        embedded: Tensor = self.word_embeddings(input_ids)
        return embedded


def recompute(model: AnyModel) -> None:
    """Let the backward pass of training compute each layer's activations again.

    Raises:
        RaptError: the model cannot, or a layer would lose its prefix.
    """
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    if has_prefix(model) or not base.supports_gradient_checkpointing:
        what = "prefix-tuning" if has_prefix(model) else base.config.model_type
        raise RaptError(f"train.gradient_checkpointing: got true with {what}, expected false.")
    warnings.filterwarnings(
        "ignore", message=".*gradient_checkpointing_enable.*"
    )  # has another name in v6
    # The reentrant way needs inputs that learn, which a frozen backbone has not.
    base.gradient_checkpointing_enable({"use_reentrant": False})
