"""Toy releases where what an attack can find is known, and every registered attack on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from tokenizers import Tokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from rapt.attacks import ATTACKS
from rapt.attacks.base import Attack, Inference, Inversion, Pairs, Public, Release
from rapt.attacks.victims import Victims
from rapt.privacy.base import PreparedText
from rapt.privacy.categories import VERBATIM
from rapt.privacy.channel import Channel
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.tuning.loading import load_tokenizer
from tests import tiny
from tests.tuning.conftest import backbone as backbone

V = 18
FALSE_ALARM = 1e-6
NONE = Pairs([], Release([]))
Shares = NDArray[np.float64]
MakePublic = Callable[[Shares], Public]

# P(y|w) of the first words of the table; only the first two are in the victims' texts.
CHANNELS = {
    "identity": [[1.0, 0.0], [0.0, 1.0]],
    "uniform": [[0.5, 0.5], [0.5, 0.5]],
    "two words": [[0.8, 0.2], [0.4, 0.6]],
    "turned": [[0.1, 0.9], [0.8, 0.2]],
}
PRIOR = np.array([2 / 3, 1 / 3])
# What makes an attack quick, or strong enough for so few texts; others have their defaults.
SETTINGS: dict[str, dict[str, Any]] = {
    "mlp-inversion": {"hidden": 32, "epochs": 20, "learning_rate": 0.01},
    "autoencoder": {"hidden": 64, "epochs": 60, "learning_rate": 0.01},
    "trained-reconstruction": {"layers": 1, "words": 2000},
    "attribute-mlp": {"hidden": 64, "epochs": 30, "learning_rate": 0.003},
    "attribute-hidden": {"hidden": 32, "epochs": 60, "learning_rate": 0.01, "max_tokens": 16},
    "attribute-encoder": {"layers": 2, "epochs": 8, "batch_size": 32, "learning_rate": 0.01},
    "ner": {"epochs": 8, "learning_rate": 0.01, "max_tokens": 32},
    "lira": {"shadows": 8},
}


def made(name: str, **settings: Any) -> Any:
    """The attack of a name; what it reads by is no model, unless one is given."""
    kind, given = ATTACKS[name], {"type": name}
    needed: dict[str, Any] = {"model": "none", "sha256": None, "public_text": ["any"]}
    given |= {field: value for field, value in needed.items() if field in kind.model_fields}
    return kind.model_validate(given | SETTINGS.get(name, {}) | settings)


def of_kind(kind: type[Attack]) -> list[str]:
    """The names of the registered attacks of a kind."""
    return [name for name, attack in ATTACKS.items() if issubclass(attack, kind)]


@pytest.fixture
def attack(backbone: Path, language_model: Path) -> Callable[..., Any]:
    """Make the attack of a name, which reads by a tiny model if it reads by one."""

    def make(name: str, **settings: Any) -> Any:
        if "model" in ATTACKS[name].model_fields:
            model = language_model if name == "masked-token" else backbone
            settings = {"model": str(model)} | settings
        return made(name, **settings)

    return make


@pytest.fixture(scope="session")
def tokenizer(backbone: Path) -> PreTrainedTokenizerBase:
    """Of the words of the tests' backbone, for models of both kinds."""
    tokenizer = load_tokenizer(backbone)
    tokenizer.add_special_tokens({"mask_token": "[MASK]", "bos_token": "[CLS]"})
    return tokenizer


def saved(folder: Path, tokenizer: PreTrainedTokenizerBase, kind: str, **more: int) -> Path:
    """A tiny random language model."""
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer), "hidden_size": 32}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64} | more
    models: dict[str, Callable[[], PreTrainedModel]] = {
        "masked": lambda: BertForMaskedLM(BertConfig(**sizes)),
        "causal": lambda: LlamaForCausalLM(LlamaConfig(**sizes)),
        "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**sizes)),
    }
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    models[kind]().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def language_model(
    tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return saved(tmp_path_factory.mktemp("language") / "any", tokenizer, "masked")


@pytest.fixture(scope="session", params=["masked", "causal"])
def model(
    request: pytest.FixtureRequest,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    return saved(tmp_path_factory.mktemp("language") / request.param, tokenizer, request.param)


@pytest.fixture(scope="session")
def encoder(table: EmbeddingTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "encoder"
    tokenizer = Tokenizer.from_file(str(table.folder / "tokenizer.json"))
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[UNK]")
    return tiny.bert(folder, made, positions=40)


@pytest.fixture
def public(table: EmbeddingTable) -> MakePublic:
    """Public knowledge of a channel over the first words of the table; others are verbatim."""

    def make(matrix: Shares) -> Public:
        size = len(matrix)
        counts = np.zeros((size, V), np.int64)
        counts[:, :size] = np.rint(1000 * matrix)
        groups = np.full(V, VERBATIM)
        groups[:size] = 0
        return Public(table, groups, Channel(np.arange(size), csr_array(counts)))

    return make


def drawn(known: Public, n: int, seed: int) -> list[str]:
    """Draw n of the first two words, with the frequencies that the table has of them."""
    rows = np.random.default_rng(seed).choice(2, n, p=PRIOR)
    return [known.table.words[row] for row in rows]


def released(words: Sequence[str], known: Public, seed: int) -> Release:
    """Release texts of one word each by the channel."""
    assert known.channel
    rng, matrix = np.random.default_rng(seed), known.channel.matrix.toarray()
    rows = known.table.rows(words)
    return Release([[known.table.words[rng.choice(V, p=matrix[row])]] for row in rows])


def right(how: Inversion, known: Public, words: Sequence[str], own: Pairs = NONE) -> int:
    """How many of the words the attack recovers from as many releases of them as it takes."""
    copies = [released(words, known, seed) for seed in range(10, 10 + how.takes)]
    victims = Victims([[word] for word in words], [[0]] * len(words), known.table.form)
    scores = victims.score(how.fit(known, own, 0).words(copies))
    return int(scores.ratios["accuracy"][0].sum())


def two_words(matrix: Shares, seed: int, n: int = 3000) -> Pairs:
    """Words a and b, equally often, and their releases by the channel."""
    rng, names = np.random.default_rng(seed), ("nouna", "nounb", "verba")
    words = rng.integers(2, size=n)
    after = [rng.choice(len(matrix[w]), p=matrix[w]) for w in words]
    return Pairs([[names[w]] for w in words], Release([[names[y]] for y in after]))


def streamed(texts: Sequence[Sequence[str]], seed: int, group: int = 0) -> list[PreparedText]:
    """Texts to privatize, each with noise of its own."""
    return [
        PreparedText(list(text), [group] * len(text), partial(stream, seed, i))
        for i, text in enumerate(texts)
    ]


class Known(NamedTuple):
    """Texts and the author of each."""

    release: Release
    values: list[str]

    @classmethod
    def of(cls, texts: Any, who: NDArray[np.int64], vectors: Any = None) -> Known:
        return cls(Release([list(text) for text in texts], vectors), [f"author-{w}" for w in who])


def accuracy(how: Inference, table: EmbeddingTable, own: Known, victims: Known) -> float:
    known = {"author": own.values}
    guesses = how.guesses(table, own.release, known, victims.release, 0)["author"]
    return float(np.mean(np.array(guesses) == victims.values))


def writers(n: int, likes: float, seed: int) -> Known:
    """Texts of two terms, each with such a chance the one of the two that its author likes.

    A term is a word of the tests' backbone and one of the table.
    """
    rng = np.random.default_rng(seed)
    who = rng.integers(2, size=n)
    picks = np.where(rng.random((n, 2)) < likes, who[:, None], 1 - who[:, None])
    terms = np.array([["good", "nouna"], ["bad", "nounb"]])
    return Known.of(terms[picks].reshape(n, 4).tolist(), who)
