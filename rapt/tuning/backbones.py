"""Common interface to encoders, decoders and encoder-decoders: activations of tokens.

Of an encoder-decoder (T5) that classifies only the encoder is used: the head pools its activations
(RAPT). One that writes has its decoder as well, and its activations are the encoder's all the same.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel, PeftType, prepare_model_for_kbit_training
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
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
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    MODEL_FOR_TEXT_ENCODING_MAPPING,
)

from rapt import models
from rapt.tuning.bilstm import BiLstmConfig, BiLstmModel
from rapt.tuning.config import Precision
from rapt.tuning.inputs import Batch
from rapt.utils.device import device
from rapt.utils.errors import RaptError

# A layer's projections to queries and values, as the models that PEFT does not know name them.
MAMBA_PROJECTIONS = {"in_proj", "x_proj"}
QUERIES_AND_VALUES = re.compile(r"(q|v|query|value)(_proj|_lin)?")


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
        states = _bare(model)(tokens).last_hidden_state
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


def writes(model: PreTrainedModel | PeftModel) -> bool:
    """Return whether a model has a head that writes text."""
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    return base.get_output_embeddings() is not None


def translates(model: PreTrainedModel | PeftModel) -> bool:
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


def sharing_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Copy a frozen model's modules, which an adapter changes, but share its parameters."""
    return deepcopy(model, {id(weight): weight for weight in model.parameters()})


def recompute(model: PreTrainedModel | PeftModel) -> None:
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


def _can_quantize(quantize: str) -> None:
    if device().type != "cuda":
        raise RaptError(f"quantize: got {quantize!r}, expected null without a CUDA device.")
    if find_spec("bitsandbytes") is None:
        raise RaptError(
            f"quantize: got {quantize!r}, expected null without bitsandbytes. "
            "Try: pip install 'rapt[qlora]'"
        )


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


def virtual_tokens(model: PreTrainedModel | PeftModel) -> int:
    """Return the number of virtual tokens, or of tokens of a prefix, before a text."""
    tuner = model.active_peft_config if isinstance(model, PeftModel) else None
    return tuner.num_virtual_tokens if tuner and tuner.is_prompt_learning else 0


def most_tokens(model: PreTrainedModel | PeftModel, *, written: bool = False) -> int | None:
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
    return max(0, int(positions) - first_position(_bare(model)) - taken)


def embedding_size(model: PreTrainedModel | PeftModel) -> int:
    """Return the dimension of a model's input embeddings."""
    return int(_bare(model).get_input_embeddings().weight.shape[1])


def state_size(model: PreTrainedModel | PeftModel) -> int:
    """Return the dimension of a model's last hidden state, which OPT-350m projects to another."""
    hidden = int(model.config.hidden_size)
    if embedding_size(model) == hidden:
        return hidden
    bare = _bare(model)
    was_training = bare.training
    with torch.no_grad():
        states = bare.eval()(torch.tensor([[3, 4]], device=model.device)).last_hidden_state
    bare.train(was_training)
    return int(states.shape[-1])


def reads_alone(model: PreTrainedModel | PeftModel, batch: Batch) -> bool:
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


def _bare(model: PreTrainedModel | PeftModel) -> Any:
    """The backbone inside PEFT, without a head; of one that translates the encoder."""
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    if translates(base):
        return base.get_encoder()
    return base.base_model if writes(base) else base


def check_vectors(model: PreTrainedModel | PeftModel, vectors: Tensor | None) -> None:
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


def activations(model: PreTrainedModel | PeftModel, batch: Batch) -> Tensor:
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
    bare = _bare(model)
    if batch.vectors is not None:
        inputs["inputs_embeds"] = _embedded(bare, inputs.pop("input_ids"), batch.vectors)
    if not batch.on_the_left:
        return _forward(model, bare, inputs)
    order = batch.attention.argsort(dim=1, descending=True, stable=True)
    moved = _forward(model, bare, {name: _along(x, order) for name, x in inputs.items()})
    return _along(moved, order.argsort(dim=1))


def of_virtual_tokens(model: PreTrainedModel | PeftModel) -> int:
    """Return how many of a text's `activations` are those of virtual tokens: the first."""
    is_prefix = has_prefix(model)
    return 0 if is_prefix or not translates(model) else virtual_tokens(model)


def has_prefix(model: PreTrainedModel | PeftModel) -> bool:
    """Return whether a prefix stands before a text, in every layer."""
    tuner = model.active_peft_config if isinstance(model, PeftModel) else None
    return tuner is not None and tuner.peft_type == PeftType.PREFIX_TUNING


def with_virtual_tokens(model: PeftModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the input embeddings of a batch with its virtual tokens first, and their attention.

    They are (batch, virtual tokens + length, h) and (batch, virtual tokens + length).
    """
    embedded = _bare(model).get_input_embeddings()(batch.tokens)
    learned: Any = model.get_prompt(len(batch.tokens))
    both = torch.cat((learned.to(embedded.dtype), embedded), dim=1)
    return both, _before(batch.attention, 1, virtual_tokens(model))


def has_virtual_tokens(model: PreTrainedModel | PeftModel) -> bool:
    """Return whether virtual tokens stand before a text; a prefix is none of its tokens."""
    return virtual_tokens(model) > 0 and not has_prefix(model)


def translated(model: PreTrainedModel | PeftModel, states: Tensor, batch: Batch) -> Tensor:
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
