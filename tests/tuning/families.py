"""Tiny random backbones, one for each family, and releases and runs for them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers as hf
from torch import Tensor

from rapt.kinds.classify import Classify
from rapt.tuning.config import BiLstm, Reconstruction, Run
from rapt.tuning.inputs import Batch, Split, read_split
from rapt.tuning.model import adapt, load_backbone
from rapt.tuning.tuners import TUNERS as REGISTERED
from rapt.tuning.tuners import Full
from rapt.utils import files
from tests.tuning.conftest import PLAIN as SEQUENCES
from tests.tuning.conftest import write_release
from tests.tuning.tokenizers import (
    gpt2_tokenizer,
    llama3_tokenizer,
    mistral_tokenizer,
    qwen_tokenizer,
    roberta_tokenizer,
    t5_tokenizer,
    word_pieces,
)

PLAIN = SEQUENCES[0]
POSITIONS = 160
SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def encoder(config: type, model: Callable, positions: int = POSITIONS, **more: Any) -> Callable:
    more |= {"intermediate_size": 48, "pad_token_id": 1, "max_position_embeddings": positions}
    return lambda n: model(config(vocab_size=n, **SIZE, **more))


def without_pooler(model: type) -> Any:
    return partial(model, add_pooling_layer=False)


def decoder(config: type, model: type, **more: Any) -> Callable:
    more |= {"intermediate_size": 48, "max_position_embeddings": POSITIONS, "pad_token_id": None}
    return lambda n: model(config(vocab_size=n, **SIZE, num_key_value_heads=1, **more))


def gemma3(size: int) -> hf.PreTrainedModel:
    """Gemma 3 of 4B and more: it sees images, and its shape is that of the model inside."""
    small = {"intermediate_size": 48, "image_size": 8, "patch_size": 4}
    inside: Any = decoder(hf.Gemma3TextConfig, hf.Gemma3TextModel, **ROTARY)(size)
    config = hf.Gemma3Config(
        text_config=inside.config.to_dict(), vision_config=SIZE | small, mm_tokens_per_image=4
    )
    return hf.Gemma3Model(config)


def gpt2(size: int) -> hf.PreTrainedModel:
    shape = {"n_positions": POSITIONS, "n_embd": 32, "n_layer": 2, "n_head": 2}
    return hf.GPT2Model(hf.GPT2Config(vocab_size=size, bos_token_id=0, eos_token_id=0, **shape))


def t5(size: int) -> hf.PreTrainedModel:
    # Heads of 8 each: their product is not the width.
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 2}
    return hf.T5Model(hf.T5Config(vocab_size=size, **shape))


def umt5(size: int) -> hf.PreTrainedModel:
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 2}
    return hf.UMT5Model(hf.UMT5Config(vocab_size=size, **shape))


def xlnet(size: int) -> hf.PreTrainedModel:
    """Its max_position_embeddings is -1."""
    shape = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 48}
    return hf.XLNetModel(hf.XLNetConfig(vocab_size=size, **shape))


def opt(size: int) -> hf.PreTrainedModel:
    """As OPT-350m, whose last hidden state is narrower than its layers."""
    shape = {"word_embed_proj_dim": 16, "ffn_dim": 48, "max_position_embeddings": POSITIONS}
    return hf.OPTModel(hf.OPTConfig(vocab_size=size, do_layer_norm_before=False, **SIZE, **shape))


def state_space(size: int) -> hf.PreTrainedModel:
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
    return hf.MambaModel(hf.MambaConfig(vocab_size=size, **shape))


def falcon(size: int) -> hf.PreTrainedModel:
    return hf.FalconModel(hf.FalconConfig(vocab_size=size, bos_token_id=0, eos_token_id=0, **SIZE))


FAMILIES: dict[str, tuple[Callable[[], hf.PreTrainedTokenizerFast], Callable]] = {
    "bert": (
        lambda: word_pieces("[CLS]", "[SEP]", segments=True),
        encoder(hf.BertConfig, without_pooler(hf.BertModel)),
    ),
    "roberta": (
        roberta_tokenizer,
        encoder(
            hf.RobertaConfig, without_pooler(hf.RobertaModel), POSITIONS + 2, type_vocab_size=1
        ),
    ),
    "mpnet": (
        lambda: word_pieces("<s>", "</s>", segments=False),
        encoder(hf.MPNetConfig, without_pooler(hf.MPNetModel), POSITIONS + 2),
    ),
    "gpt2": (gpt2_tokenizer, gpt2),
    "llama": (llama3_tokenizer, decoder(hf.LlamaConfig, hf.LlamaModel)),
    "mistral": (mistral_tokenizer, decoder(hf.MistralConfig, hf.MistralModel)),
    "qwen2": (qwen_tokenizer, decoder(hf.Qwen2Config, hf.Qwen2Model)),
    "t5": (t5_tokenizer, t5),
}

CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)

# Models that are tested less, as nothing of ours is for them alone.
ROTARY = {"head_dim": 24}  # heads that do not divide the width
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48, "pad_token_id": 1}
OTHERS: dict[str, tuple[Callable[[], hf.PreTrainedTokenizerFast], Callable]] = {
    "deberta-v2": (  # DeBERTa-v3 too
        roberta_tokenizer,
        encoder(
            hf.DebertaV2Config,
            hf.DebertaV2Model,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_biased_input=False,
            type_vocab_size=0,
        ),
    ),
    "modernbert": (roberta_tokenizer, encoder(hf.ModernBertConfig, hf.ModernBertModel)),
    "electra": (
        lambda: word_pieces("[CLS]", "[SEP]", segments=True),
        encoder(hf.ElectraConfig, hf.ElectraModel, embedding_size=16),
    ),
    "distilbert": (
        lambda: word_pieces("[CLS]", "[SEP]", segments=False),
        lambda n: hf.DistilBertModel(hf.DistilBertConfig(vocab_size=n, **DISTILBERT)),
    ),
    "qwen3": (qwen_tokenizer, decoder(hf.Qwen3Config, hf.Qwen3Model, **ROTARY)),
    "gemma3_text": (llama3_tokenizer, decoder(hf.Gemma3TextConfig, hf.Gemma3TextModel, **ROTARY)),
    "gemma3": (llama3_tokenizer, gemma3),
    "smollm2": (gpt2_tokenizer, decoder(hf.LlamaConfig, hf.LlamaModel, tie_word_embeddings=True)),
    "olmo2": (qwen_tokenizer, decoder(hf.Olmo2Config, hf.Olmo2Model)),
    "phi3": (mistral_tokenizer, decoder(hf.Phi3Config, hf.Phi3Model)),
    "albert": (
        lambda: word_pieces("[CLS]", "[SEP]", segments=True),
        encoder(hf.AlbertConfig, without_pooler(hf.AlbertModel), embedding_size=16),
    ),
    # Heads under other names or none, LoRA's own modules, and what takes no prefix.
    "mamba": (gpt2_tokenizer, state_space),
    "mixtral": (mistral_tokenizer, decoder(hf.MixtralConfig, hf.MixtralModel, num_local_experts=2)),
    "falcon": (gpt2_tokenizer, falcon),
    "lfm2": (llama3_tokenizer, decoder(hf.Lfm2Config, hf.Lfm2Model, full_attn_idxs=[1])),
    "opt": (roberta_tokenizer, opt),
    "umt5": (t5_tokenizer, umt5),
    "xlnet": (t5_tokenizer, xlnet),
    "bart": (
        roberta_tokenizer,
        lambda n: hf.BartModel(
            hf.BartConfig(
                vocab_size=n,
                d_model=32,
                encoder_layers=2,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=48,
                decoder_ffn_dim=48,
                max_position_embeddings=POSITIONS,
                scale_embedding=True,
            )
        ),
    ),
}


def make(name: str, folder: Path, writes: Any = None, **config: Any) -> Path:
    """Write the family's tiny model and its tokenizer; `writes`: with a head, by an Auto class."""
    tokenizer, model = (FAMILIES | OTHERS)[name]
    made = tokenizer()
    if writes and made.eos_token is None:
        made.eos_token = made.sep_token
    made.save_pretrained(folder)
    torch.manual_seed(0)
    built = model(len(made))
    for key, value in config.items():
        setattr(built.config, key, value)
    (writes.from_config(built.config) if writes else built).save_pretrained(folder)
    return folder


# What makes a tuner quick on a tiny model; others have their defaults.
SETTINGS: dict[str, dict[str, Any]] = {
    "lora": {"r": 4, "alpha": 8, "dropout": 0.0, "learning_rate": 0.03},
    "prompt-tuning": {"tokens": 5, "learning_rate": 0.03},
    "prefix-tuning": {"tokens": 5, "learning_rate": 0.03},
    "p-tuning": {"tokens": 5, "hidden": 16, "learning_rate": 0.03},
    "full": {"learning_rate": 0.005},
    "bitfit": {"learning_rate": 0.03},
}
# Every registered one that tunes a backbone: these two have tests of their own.
TUNERS: dict[str, Any] = {
    name: kind.model_validate({"type": name} | SETTINGS.get(name, {}))
    for name, kind in REGISTERED.items()
    if name not in ("untuned", "tfidf")
}


WITHOUT_BIASES = {"t5", "umt5", "llama", "mistral", "mixtral", "smollm2", "qwen3", "olmo2", "phi3"}
WITHOUT_BIASES |= {"gemma3_text", "gemma3", "lfm2", "modernbert"}


def fits(family: str, tuner: str) -> bool:
    """Whether a family takes a tuner."""
    unfit = {"mpnet", "deberta-v2", "modernbert", "distilbert", "bart", "albert"}
    unfit |= {"mamba", "falcon", "lfm2", "xlnet"}
    if tuner == "prefix-tuning":
        return family not in unfit
    if tuner == "bitfit" and family in WITHOUT_BIASES:
        return False
    return family != "bart" or tuner not in ("full", "bitfit")


# One tuner for each family, and each tuner at least once; all other tests are slow.
QUICK = {
    "bert": "prefix-tuning",
    "roberta": "lora",
    "mpnet": "p-tuning",
    "gpt2": "prompt-tuning",
    "llama": "prefix-tuning",
    "mistral": "lora",
    "qwen2": "full",
    "t5": "prompt-tuning",
}
PAIRS = [
    pytest.param(
        family,
        tuner,
        marks=[] if tuner in (QUICK[family], "linear-probe") else pytest.mark.slow,
        id=f"{family}-{tuner}",
    )
    for family in FAMILIES
    for tuner in TUNERS
    if fits(family, tuner)
]
# An encoder that is trained anew on a family's embeddings, in the place of a tuner.
BILSTM = BiLstm(hidden=6, layers=2, dropout=0.0)
PAIRS.append(pytest.param("bert", "bilstm", id="bert-bilstm"))
START = {"gpt2": 0, "qwen2": 0, "t5": 0}  # special tokens before the text; elsewhere one
ORDER = ["film", "unlikely", "likely"]
SPANS = [(0, 1), (1, 4), (4, 5)]  # of their tokens


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {name: make(name, root / name) for name in (*FAMILIES, *OTHERS)}


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of three classes: texts with "good", "bad" or "very"."""
    rng = np.random.default_rng(0)
    splits = {}
    for split, n in (("train", 64), ("test", 24)):
        labels = rng.integers(3, size=n)
        words = [
            [*rng.choice(["film", "plot"], rng.integers(1, 4)), ("good", "bad", "very")[label]]
            for label in labels
        ]
        plain = [list(rng.permutation(PLAIN)) for _ in range(n)]
        segment = [[0] * len(text) for text in words]
        splits[split] = {"words": words, "segment": segment, "label": labels, "plain": plain}
    return write_release(tmp_path_factory.mktemp("release"), splits, labels=["a", "b", "c"])


@pytest.fixture
def run(run: Run) -> Run:
    three = Classify(("a", "b", "c"))
    return replace(
        run, cell="tiny", reconstruction=Reconstruction(head_size=8, weight=0.1), kind=three
    )


def split_of(
    folder: Path, path: Path, max_tokens: int, texts: list[list[str]], **more: Any
) -> Split:
    _, tokenizer = load_backbone(folder)
    columns = {
        "words": pa.array(texts, pa.list_(pa.string())),
        "segment": pa.array([[0] * len(words) for words in texts], pa.list_(pa.int8())),
        "label": [0] * len(texts),
        **more,
    }
    files.write_parquet(path / "split.parquet", pa.table(columns))
    return read_split(path / "split.parquet", tokenizer, max_tokens)


def on_the_left(batch: Batch) -> Batch:
    """Return the same batch, padded on the left."""
    pads = (batch.attention == 0).sum(1)

    def rolled(values: Tensor) -> Tensor:
        rows = zip(values, pads.tolist(), strict=True)
        return torch.stack([row.roll(count, 0) for row, count in rows])

    moved = {
        name: rolled(value)
        for name, value in vars(batch).items()
        if isinstance(value, Tensor) and name not in ("labels", "sequences")
    }
    return replace(batch, **moved, on_the_left=True)


def cell(run: Run, folder: Path, tuner: str) -> Run:
    """The run of a family's model by a tuner."""
    if tuner == "bilstm":
        return replace(run, backbone=folder, encoder=BILSTM, tuner=Full(learning_rate=0.02))
    return replace(run, backbone=folder, tuner=TUNERS[tuner])


def adapted(folder: Path, tuner: str, writes: bool = False) -> Any:
    torch.manual_seed(1)
    if tuner == "bilstm":
        return load_backbone(folder, encoder=BILSTM)[0].eval()
    model = adapt(load_backbone(folder, writes=writes)[0], TUNERS[tuner]).eval()
    for name, weights in model.named_parameters():
        if "lora_B" in name:  # zero at first
            torch.nn.init.normal_(weights)
    return model


def served_alone(model: Any, tokens: list[int]) -> Tensor:
    """Return the output of PEFT's own forward for one text without padding (length, h)."""
    with torch.inference_mode():
        ids = torch.tensor([tokens])
        hidden = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
    return hidden[len(hidden) - len(tokens) :]
