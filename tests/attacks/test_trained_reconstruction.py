"""An encoder that learns from self-made pairs what a mechanism leaks beside its channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import binomtest
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from rapt.attacks.base import Pairs, Public, Release
from rapt.attacks.bayesian import Bayesian
from rapt.attacks.trained_inversion import TrainedReconstruction
from rapt.privacy.channel import Channel
from rapt.privacy.privatizer import Words
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError

V, LENGTH, FALSE_ALARM = 18, 20, 1e-6
NONE = Pairs([], Release([]))
UNIFORM = np.full((V, V), 50)


class Uniform:
    """Any word of the table for each word, but for every `kept`-th, which stays."""

    def __init__(self, words: list[str], kept: int) -> None:
        self._words, self._kept = words, kept

    def privatize(self, texts: Iterable[Words]) -> Iterator[list[str]]:
        for text in texts:
            released = text.stream().choice(self._words, len(text.words)).tolist()
            released[:: self._kept] = text.words[:: self._kept]
            yield released


@pytest.fixture(scope="module")
def encoder(table: EmbeddingTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "encoder"
    tokenizer = Tokenizer.from_file(str(table.folder / "tokenizer.json"))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[UNK]"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=2 * LENGTH,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def texts(table: EmbeddingTable, n: int, seed: int) -> list[Words]:
    picks = np.random.default_rng(seed).choice(table.words, (n, LENGTH)).tolist()
    return [
        Words(words, [0] * LENGTH, lambda i=i: stream(seed, i)) for i, words in enumerate(picks)
    ]


def public(table: EmbeddingTable, kept: int, counts: NDArray[np.int64] = UNIFORM) -> Public:
    channel = Channel(np.arange(V), csr_array(counts))
    own: Any = Uniform(table.words, kept)
    return Public(table, np.zeros(V, np.int64), channel, texts(table, 200, 0), own)


def attack(encoder: Path, **how: Any) -> TrainedReconstruction:
    return TrainedReconstruction(
        type="trained-reconstruction", public_text=["any"], model=str(encoder), layers=1, **how
    )


def test_it_notices_a_mechanism_that_keeps_every_tenth_word(
    table: EmbeddingTable, encoder: Path
) -> None:
    """The channel of single words does not tell: the leak is in the place.

    Without it 1/18 is recovered, as by whoever reads one word at a time.
    """
    known, victims = public(table, kept=10), texts(table, 200, 1)
    assert known.privatizer
    release = Release(list(known.privatizer.privatize(victims)))
    truth = np.array([text.words for text in victims])
    single, trained = (
        np.array(how.fit(known, NONE, 0).words([release])) == truth
        for how in (
            Bayesian(type="bayesian", prior="public"),
            attack(encoder, words=40_000, learning_rate=0.005),
        )
    )
    tests = [("two-sided", single), ("greater", trained)]
    p = [binomtest(int(r.sum()), r.size, 1 / V, alternative=which).pvalue for which, r in tests]
    assert p[0] > FALSE_ALARM > p[1]
    assert trained[:, ::10].mean() > 0.9


def test_without_text_there_is_nothing_to_learn(table: EmbeddingTable, encoder: Path) -> None:
    known = public(table, 1)
    with pytest.raises(RaptError, match="public_text: got no protected word"):
        attack(encoder).fit(Public(table, known.groups, known.channel), NONE, 0)
