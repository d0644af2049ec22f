"""Kind generate: prompts, and the texts that a language model writes after them.

A prompt is the plain words, the source and PROMPT; the text follows it, up to the token that ends
it. An encoder reads a prompt without PROMPT, and the text is its decoder's own. RAPT gives no form.
Words keep their spacing, as the model learns to write.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedTokenizerBase,
    RepetitionPenaltyLogitsProcessor,
)

from rapt.tuning.backbones import has_prefix, translates, virtual_tokens, with_virtual_tokens
from rapt.tuning.batches import by_length, each_row
from rapt.tuning.config import Decoding, Sampling
from rapt.tuning.inputs import NO_PLAIN, Batch, Split, as_spelled, collate, user_turn
from rapt.tuning.model import TaskModel
from rapt.utils.device import out_of_memory
from rapt.utils.errors import RaptError, described
from rapt.utils.progress import bar

PROMPT = "\nText:"


def tokenized(
    columns: Mapping[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    *,
    apart: bool = False,
    chat: bool = False,
) -> Split:
    """Tokenize sources, and the texts that were written of them, where a release has any.

    A source loses what is beyond `max_tokens`. `Split.text` marks the tokens of the text. For a
    model that translates they stand `apart`, as `Split.targets`. With `chat` the chat template of
    the tokenizer takes the place of PROMPT.

    Raises:
        RaptError: the tokenizer has no token that ends a text, or no chat template.
    """
    if chat and apart:
        raise RaptError("decoding.chat: got true with an encoder, expected false.")
    if tokenizer.eos_token_id is None:
        raise RaptError(
            "the backbone's tokenizer: got no end-of-text token, expected one. Take another model."
        )
    count = len(columns["words"])
    plain = columns.get("plain") or [[]] * count
    sequences = columns.get("sequence") or [0] * count
    every: list[list[int]] = []
    of_every: list[list[int]] = []
    targets: list[list[int]] = []
    is_text: list[list[bool]] = []
    rows = zip(columns["words"], columns["segment"], columns["space_after"], plain, strict=True)
    for words, segment, space_after, prefix in rows:
        parts = ["", ""]
        for word, part, is_spaced in zip(words, segment, space_after, strict=True):
            parts[part] += word + " " * is_spaced
        source, text = (part.strip() for part in parts)
        source = cut(tokenizer, source, max_tokens)
        tokens, of_plain = _prompt(tokenizer, prefix, source, "" if apart else PROMPT, chat)
        written = []
        if apart:
            targets.append(_ended(tokenizer, tokenizer(text)["input_ids"]) if text else [])
        elif text:
            alone = tokenizer(f" {text}", add_special_tokens=False)["input_ids"]
            written = _ended(tokenizer, alone)
        every.append([*tokens, *written])
        of_every.append([*of_plain, *[NO_PLAIN] * len(written)])
        is_text.append([*[False] * len(tokens), *[True] * len(written)])
    return Split.of_lists(
        every,
        plain=of_every,
        text=is_text,
        sequences=sequences,
        targets=targets if apart else None,
    )


def _prompt(
    tokenizer: PreTrainedTokenizerBase,
    plain: Sequence[str],
    source: str,
    request: str,
    chat: bool,
) -> tuple[list[int], list[int]]:
    """Return the tokens of a prompt, and for each the index of its plain word, else NO_PLAIN."""
    content, start = " ".join([*plain, source]), 0
    text = content + request
    if chat:
        text = user_turn(tokenizer, content)
        tokenizer, start = as_spelled(tokenizer.name_or_path), max(0, text.find(content))
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=not chat)
    tokens = encoded["input_ids"]
    if request and not chat and tokens[-1] == tokenizer.eos_token_id:  # which some tokenizers add
        tokens.pop()
    # A token belongs to the word of its last character: a byte-level one begins with a space.
    starts = list(accumulate((len(word) + 1 for word in plain), initial=start))
    owners = [bisect_right(starts, end - 1) - 1 for _, end in encoded["offset_mapping"]]
    return tokens, [
        owner if 0 <= owner < len(plain) else NO_PLAIN
        for owner, _ in zip(owners, tokens, strict=False)
    ]


def cut(tokenizer: PreTrainedTokenizerBase, text: str, most: int) -> str:
    """Return a text without what is beyond its first tokens."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if len(encoded["input_ids"]) <= most:
        return text
    return text[: encoded["offset_mapping"][most - 1][1]]


def _ended(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> list[int]:
    end: Any = tokenizer.eos_token_id
    return tokens if tokens and tokens[-1] == end else [*tokens, end]


class Written(NamedTuple):
    """Texts, each one line, and the share of them that the model ended itself."""

    texts: list[str]
    finished: float


def try_out(
    model: TaskModel, tokenizer: PreTrainedTokenizerBase, decoding: Decoding, *, apart: bool
) -> None:
    """Write two tokens after a short source, as models without a usual cache know no beams.

    Raises:
        RaptError: the model fails.
    """
    columns: dict[str, list[Any]] = {"words": [["a"]], "segment": [[0]], "space_after": [[False]]}
    split = tokenized(columns, tokenizer, 2, apart=apart)
    short = decoding.model_copy(update={"max_new_tokens": 2})
    was_training = model.training
    try:
        write(model.eval(), split, tokenizer, short, 1)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, RuntimeError) and out_of_memory(error):
            raise
        kind, beams = model.backbone.config.model_type, decoding.beams
        advice = "1, or another backbone" if beams > 1 else "a backbone that writes"
        raise RaptError(
            f"decoding.beams: got {beams} for {kind}, which cannot write so ({described(error)}), "
            f"expected {advice}."
        ) from error
    finally:
        model.train(was_training)


def write(
    model: TaskModel,
    split: Split,
    tokenizer: PreTrainedTokenizerBase,
    decoding: Decoding | Sampling,
    batch_size: int,
) -> Written:
    """Write a text for each prompt of a split, by beam search, or drawn by PyTorch's generator.

    Raises:
        RaptError: memory does not suffice for one prompt.
    """
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id

    def one_batch(rows: list[int]) -> Tensor:
        return _generated(model, split, rows, pad, end, decoding).cpu()

    model.eval()
    # A decoder's prefix stands before the padding on the left. Sliding windows and ALiBi, which
    # measure distances in places, would then move it away from the text.
    padded = translates(model.backbone) or not has_prefix(model.backbone)
    batches = list(by_length(split.lengths, batch_size, padded=padded))
    lower = "decoding.beams" if isinstance(decoding, Decoding) else "sampling.max_new_tokens"
    tokens = each_row(bar(batches, "writing", len(batches)), one_batch, lower)
    texts = [str(tokenizer.decode(one, skip_special_tokens=True)) for one in tokens]
    lines = [text.strip().partition("\n")[0].strip() for text in texts]
    return Written(lines, sum(end in one for one in tokens) / len(tokens))


@torch.inference_mode()
def sampled(
    models: Sequence[TaskModel],
    split: Split,
    tokenizer: PreTrainedTokenizerBase,
    most: int,
    draw: Callable[[NDArray[np.float64]], int],
) -> list[str]:
    """Write a text for each prompt of a split, each token drawn by what several models think of it.

    No cache keeps what was read, as each model would need one.

    Args:
        models: causal language models with the same tokens, in evaluation.
        split: the prompts.
        tokenizer: of the models.
        most: tokens of a text.
        draw: chooses a token by the probabilities of each model, float64 (models, vocabulary).
    """
    texts = []
    for prompt in split.tokens:
        written: list[int] = []
        while len(written) < most and tokenizer.eos_token_id not in written:
            batch = collate(Split.of_lists([[*prompt, *written]]), [0], tokenizer.pad_token_id)
            each = [_next(model, batch.to(model.place)) for model in models]
            written.append(draw(torch.stack(each).numpy()))
        text = str(tokenizer.decode(written, skip_special_tokens=True))
        texts.append(text.strip().partition("\n")[0].strip())
    return texts


def _next(model: TaskModel, batch: Batch) -> Tensor:
    """Return the probability of each token after a text alone, float64 (vocabulary,)."""
    head: Any = model.head
    last = model.activations(batch)[0, -1].to(head.weight)
    probabilities: Tensor = head(last).cpu().double().softmax(0)
    return probabilities


@torch.inference_mode()
def _generated(
    model: TaskModel,
    split: Split,
    rows: list[int],
    pad: int,
    end: int,
    decoding: Decoding | Sampling,
) -> Tensor:
    """Return the tokens that are written after each prompt, (rows, at most max_new_tokens)."""
    batch = collate(split, rows, pad).to(model.place)
    backbone: Any = model.backbone
    prompt = {"input_ids": batch.tokens, "attention_mask": batch.attention}
    width, source = 1, None  # of a decoder's own text: the token that starts it
    if not translates(backbone):
        # Padded on the left, as a text begins where its prompt ends.
        order = batch.attention.argsort(dim=1, stable=True)
        prompt = {name: x.take_along_dim(order, dim=1) for name, x in prompt.items()}
        width = source = batch.tokens.shape[1]
        if virtual_tokens(backbone) and not has_prefix(backbone):
            # PEFT puts them before the padding, and so away from the text.
            embedded, attention = with_virtual_tokens(backbone, batch)
            order = attention.argsort(dim=1, stable=True)
            prompt = {"inputs_embeds": embedded.take_along_dim(order[..., None], dim=1)}
            prompt["attention_mask"] = attention.take_along_dim(order, dim=1)
            backbone, width, source = backbone.get_base_model(), 0, None
    search = GenerationConfig(
        **decoding.choice(),
        max_new_tokens=decoding.max_new_tokens,
        use_cache=True,
        pad_token_id=pad,
        eos_token_id=end,
        decoder_start_token_id=getattr(model.backbone.config, "decoder_start_token_id", None),
    )
    processors = LogitsProcessorList()
    if decoding.repetition_penalty != 1:
        processors.append(
            RepetitionPenaltyLogitsProcessor(
                decoding.repetition_penalty, prompt_ignore_length=source
            )
        )
    low = model.precision == "bf16"
    with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=low):
        every: Tensor = backbone.generate(
            **prompt, generation_config=search, logits_processor=processors
        )
    return every[:, width:]
