"""Every family of backbones: tokens, vectors, pairs, prefixes and positions."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rapt.tuning import backbones, loading
from rapt.tuning.config import Run
from rapt.tuning.inputs import NO_ROW, Split, collate, pooled, pooled_plain, tokenized, word_pieces
from rapt.tuning.model import load_backbone
from rapt.tuning.ragged import Ragged
from rapt.tuning.train import train_seed
from rapt.tuning.tuners import Lora, PromptTuning
from rapt.utils.errors import RaptError
from tests.tuning.families import (
    FAMILIES,
    ORDER,
    SPANS,
    START,
    adapted,
    fits,
    on_the_left,
    served_alone,
    split_of,
)
from tests.tuning.families import folders as folders
from tests.tuning.families import release as release
from tests.tuning.families import run as run

# The layout of a pair by each family's own tokenizer.
LAYOUTS = {
    "bert": "[CLS] PLAIN FIRST [SEP] SECOND [SEP]",
    "roberta": "<s> PLAIN FIRST </s> </s> SECOND </s>",
    "mpnet": "<s> PLAIN FIRST </s> </s> SECOND </s>",
    "gpt2": "PLAIN FIRST SECOND",
    "llama": "<|begin|> PLAIN FIRST <|begin|> SECOND",
    "mistral": "<s> PLAIN FIRST <s> SECOND",
    "qwen2": "PLAIN FIRST SECOND",
    "t5": "PLAIN FIRST </s> SECOND </s>",
}


@torch.inference_mode()
def t5_with_prefix(model: Any, tokens: list[int]) -> Tensor:
    """Return `served_alone` by definition, as PEFT's own forward has no prefix in T5's encoder."""
    encoder, prefix = model.get_base_model().encoder, model.get_prompt(1)
    hidden = encoder.embed_tokens(torch.tensor([tokens]))
    count = prefix.get_seq_length()
    attention = encoder.block[0].layer[0].SelfAttention
    bias = attention.compute_bias(len(tokens), count + len(tokens), past_seen_tokens=count)
    for block, before in zip(encoder.block, prefix.layers, strict=True):
        attention, normed = block.layer[0].SelfAttention, block.layer[0].layer_norm(hidden)
        query, key, value = (
            part(normed).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)
            for part in (attention.q, attention.k, attention.v)
        )
        scores = query @ torch.cat((before.keys, key), 2).mT + bias
        mixed = scores.softmax(-1) @ torch.cat((before.values, value), 2)
        hidden = hidden + attention.o(mixed.transpose(1, 2).flatten(2))
        hidden = block.layer[1](hidden)
    return encoder.final_layer_norm(hidden)[0]


def lstm_alone(folder: Path, model: Any, tokens: list[int]) -> Tensor:
    """Compute the LSTM's states of one text, on embeddings from the model's own file."""
    own = loading.load_model(folder).get_input_embeddings()
    with torch.inference_mode():
        states: Tensor = model.lstm(own(torch.tensor([tokens])))[0][0]
    return states


@pytest.mark.parametrize(("most", "fit"), [(4, 4), (128, 126)])
@pytest.mark.parametrize(
    ("family", "tuner"),
    [
        (family, tuner)
        for family in FAMILIES
        for tuner in ("lora", "prompt-tuning", "prefix-tuning", "p-tuning", "bilstm")
        if fits(family, tuner)
    ],
)
def test_a_plain_token_meets_its_own_activation(
    folders: dict[str, Path], tmp_path: Path, family: str, tuner: str, most: int, fit: int
) -> None:
    # The first text is cut to whole words of 1, 3 and 1 tokens, the second is shorter: padded.
    texts = [["so", "unlikely", "film"] * 30, ["good"]]
    plain = [ORDER, ["likely", "film", "film"]]
    split = split_of(folders[family], tmp_path, most, texts, plain=plain)
    model = adapted(folders[family], tuner)
    start = START.get(family, 1)
    served = t5_with_prefix if (family, tuner) == ("t5", "prefix-tuning") else served_alone
    if tuner == "bilstm":
        served = partial(lstm_alone, folders[family])
    alone = [served(model, tokens) for tokens in split.tokens]
    expected = torch.stack([alone[0][start + a : start + b].mean(0) for a, b in SPANS])
    right = collate(split, [0, 1], loading.load_tokenizer(folders[family]).pad_token_id)
    assert not right.attention.all()
    assert right.text.sum(1).tolist() == [fit, 1]
    for batch in (right, on_the_left(right)):
        with torch.inference_mode():
            hidden = backbones.activations(model, batch)
        assert hidden.shape[:2] == batch.tokens.shape
        torch.testing.assert_close(pooled_plain(hidden, batch.plain, 3)[0], expected)
        text = pooled(hidden, batch.text)
        torch.testing.assert_close(text[0], alone[0][start + 5 : start + 5 + fit].mean(0))
        torch.testing.assert_close(text[1], alone[1][start + 3])


@pytest.mark.parametrize(
    ("family", "tuner"),
    [
        (family, tuner)
        for family in FAMILIES
        for tuner in ("full", "lora", "prompt-tuning", "prefix-tuning", "bilstm")
        if fits(family, tuner)
    ]
    # Their embeddings are scaled.
    + [("gemma3_text", "lora"), ("bart", "prompt-tuning")],
)
def test_a_words_own_embedding_given_as_a_vector_changes_nothing(
    folders: dict[str, Path], family: str, tuner: str
) -> None:
    tokenizer, model = loading.load_tokenizer(folders[family]), adapted(folders[family], tuner)
    columns = {
        "words": [["so", "film", "good"], ["plot"]],
        "segment": [[0, 0, 0], [0]],
        "label": [0, 0],
        "plain": [["film"], ["so"]],
    }
    own = tokenized(columns, tokenizer, 16)
    bare = model if tuner in ("full", "bilstm") else model.get_base_model()
    vectors = bare.get_input_embeddings().weight.detach()
    (film,) = {token for token, p in zip(own.tokens[0], own.plain[0], strict=True) if p == 0}
    good = [token for token, text in zip(own.tokens[0], own.text[0], strict=True) if text][-1]
    rows = {"row": [[NO_ROW, film, good], [NO_ROW]], "plain_row": [[film], [NO_ROW]]}
    given = tokenized(columns | rows, tokenizer, 16, vectors)
    assert [sum(token < 0 for token in tokens) for tokens in given.tokens] == [3, 0]
    batch = collate(own, [0, 1], 1)
    expected = backbones.activations(model, batch)[batch.attention == 1]
    for other in (collate(given, [0, 1], 1), on_the_left(collate(given, [0, 1], 1))):
        hidden = backbones.activations(model, other)[other.attention == 1]
        torch.testing.assert_close(hidden, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_words_become_the_tokens_they_are_inside_a_text(
    folders: dict[str, Path], tmp_path: Path, family: str
) -> None:
    tokenizer = loading.load_tokenizer(folders[family])
    split = split_of(folders[family], tmp_path, 16, [["so", "unlikely", "film"]])
    own = [t for t, text in zip(split.tokens[0], split.text[0], strict=True) if text]
    inside = tokenizer("so so unlikely film", add_special_tokens=False)["input_ids"]
    assert own == inside[-5:]


@pytest.mark.parametrize(("family", "layout"), LAYOUTS.items(), ids=list(LAYOUTS))
def test_a_pair_is_laid_out_as_by_the_familys_own_tokenizer(
    folders: dict[str, Path], family: str, layout: str
) -> None:
    tokenizer = loading.load_tokenizer(folders[family])
    columns = {
        "words": [["so", "film"] * 8 + ["unlikely", "plot"]],
        "segment": [[0] * 16 + [1] * 2],
        "label": [0],
        "plain": [["likely"]],
    }
    split = tokenized(columns, tokenizer, 6)
    halves = {"FIRST": ["so", "film", "so"], "SECOND": ["unlikely"]}  # three tokens fit of each
    known = {"PLAIN": ["likely"], **halves}
    special = tokenizer.convert_tokens_to_ids
    expected: list[tuple[int, bool]] = []
    for part in layout.split():
        pieces = word_pieces(tokenizer, known[part]) if part in known else [[special(part)]]
        expected += [(token, part in halves) for piece in pieces for token in piece]
    assert list(zip(split.tokens[0], split.text[0], strict=True)) == expected


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "llama"])
@pytest.mark.parametrize("tuner", ["lora", "prefix-tuning"])
def test_a_text_without_words_does_no_harm(
    folders: dict[str, Path], tmp_path: Path, family: str, tuner: str
) -> None:
    split = split_of(folders[family], tmp_path, 16, [[], ["so", "film"]])
    model = adapted(folders[family], tuner)
    for rows in ([0], [0, 1]):
        batch = collate(split, rows, 0)
        assert torch.isfinite(pooled(backbones.activations(model, batch), batch.text)).all()


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "llama", "mistral"])
def test_a_decoder_keeps_no_cache_of_a_text(folders: dict[str, Path], family: str) -> None:
    """It generates nothing, so a cache would be copied for every layer in vain."""
    model: Any = load_backbone(folders[family])[0]
    assert model(input_ids=torch.tensor([[1, 2]])).past_key_values is None


@pytest.mark.parametrize("tuner", ["prompt-tuning", "p-tuning", "prefix-tuning", "lora"])
def test_a_pair_keeps_its_segments(folders: dict[str, Path], tmp_path: Path, tuner: str) -> None:
    split = split_of(folders["bert"], tmp_path, 16, [["so", "film"]])
    split = replace(split, types=Ragged.of([[0, 0, 1, 1]]))
    batch, model = collate(split, [0], 1), adapted(folders["bert"], tuner)
    hidden = backbones.activations(model, batch)
    other = backbones.activations(model, replace(batch, types=torch.zeros_like(batch.types)))
    assert (hidden - other).abs().max() > 1e-3
    if tuner in ("prompt-tuning", "p-tuning"):
        bert, prompt = model.get_base_model(), model.get_prompt(1)
        words = bert.get_input_embeddings()(batch.tokens)
        types = torch.tensor([[0] * 5 + [0, 0, 1, 1]])
        made = bert(inputs_embeds=torch.cat((prompt, words), 1), token_type_ids=types)
        torch.testing.assert_close(hidden, made.last_hidden_state[:, 5:])


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "mpnet"])
def test_a_prefix_has_an_effect_in_every_layer(
    folders: dict[str, Path], tmp_path: Path, family: str
) -> None:
    split = split_of(folders[family], tmp_path, 16, [["so", "film"], ["good"]])
    batch, model = collate(split, [0, 1], 0), adapted(folders[family], "prefix-tuning")
    hidden = backbones.activations(model, batch)
    prefix = next(model.prompt_encoder.parameters())
    # A plain sum would not do: some families end in a norm, which keeps it constant.
    (gradient,) = torch.autograd.grad(hidden.square().mul(torch.rand(hidden.shape)).sum(), prefix)
    layers = gradient.view(5, 2, 2, -1)  # tokens, layers, keys and values
    assert (layers.abs().amax((0, 3)) > 0).all()
    with torch.no_grad():
        prefix.add_(1)
    assert (backbones.activations(model, batch) - hidden).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("family", "tuner", "most"),
    [
        ("bert", "lora", 160),
        ("bert", "prompt-tuning", 155),
        ("roberta", "prefix-tuning", 155),
        ("mpnet", "full", 160),
        ("gpt2", "p-tuning", 155),
        ("llama", "prefix-tuning", 155),
        ("t5", "prompt-tuning", None),
    ],
)
def test_positions_are_counted_with_virtual_tokens(
    folders: dict[str, Path], family: str, tuner: str, most: int | None
) -> None:
    model = adapted(folders[family], tuner)
    assert backbones.most_tokens(model) == most
    length = most or 200
    one = Split.of_lists([[5] * length], text=[[True] * length])
    assert torch.isfinite(backbones.activations(model, collate(one, [0], 0))).all()


def test_too_many_virtual_tokens_are_one_line(folders: dict[str, Path], run: Run) -> None:
    long = replace(run, backbone=folders["bert"], tuner=PromptTuning(tokens=156))
    line = r"got 1\d tokens with plain .* expected at most 4 beside the tuner's"
    with pytest.raises(RaptError, match=line):
        train_seed(long)
    with pytest.raises(RaptError, match=r"expected at most 0 beside"):
        train_seed(replace(long, tuner=PromptTuning(tokens=161)))


def test_a_tokenizer_without_a_token_to_pad_with_is_one_line(
    folders: dict[str, Path], run: Run, tmp_path: Path
) -> None:
    shutil.copytree(folders["gpt2"], tmp_path / "gpt2")
    path = tmp_path / "gpt2/tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in config.items() if not k.endswith("_token")}))
    line = r"^the backbone's tokenizer: got no padding token and no end-of-text token, expected "
    with pytest.raises(RaptError, match=line):
        train_seed(replace(run, backbone=tmp_path / "gpt2"))


def test_qlora_without_cuda_or_bitsandbytes_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    four = replace(run, backbone=Path("nowhere"), tuner=Lora(quantize="4bit"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RaptError, match=r"^quantize: got '4bit', expected null without a CUDA"):
        train_seed(four)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(RaptError, match=r"^quantize: got '4bit', expected null without bitsa"):
        train_seed(four)
