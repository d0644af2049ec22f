"""A language model's chances of each word at a place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from rapt.attacks import language_model
from rapt.attacks.language_model import AROUND, WordPredictor
from rapt.tuning.backbones import load_tokenizer
from rapt.utils.errors import RaptError
from tests.attacks.test_bayesian import public as public
from tests.tuning.conftest import backbone as backbone

WORDS = ["good", "bad", "film", "plot", "very", "so", "likely", "unlikely"]
FREQUENCY = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])


@pytest.fixture(scope="session")
def tokenizer(backbone: Path) -> PreTrainedTokenizerBase:
    """Of the words of the tests' backbone, for models of both kinds."""
    tokenizer = load_tokenizer(backbone)
    tokenizer.add_special_tokens({"mask_token": "[MASK]", "bos_token": "[CLS]"})
    return tokenizer


def saved(
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    kind: type[PreTrainedModel],
    sizes: PretrainedConfig,
) -> Path:
    """A tiny random language model."""
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    kind(sizes).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", params=["masked", "causal"])
def model(
    request: pytest.FixtureRequest,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("language") / request.param
    sizes: dict[str, Any] = dict(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    if request.param == "masked":
        return saved(folder, tokenizer, BertForMaskedLM, BertConfig(**sizes))
    return saved(folder, tokenizer, LlamaForCausalLM, LlamaConfig(**sizes))


def read(predict: WordPredictor, text: Sequence[str]) -> NDArray[np.float64]:
    """The chances at every place, (n, V)."""
    return np.reshape(list(predict(text)), (len(text), len(WORDS)))


@pytest.fixture
def predict(model: Path) -> WordPredictor:
    return WordPredictor(model, WORDS, FREQUENCY)


def test_a_place_is_predicted_without_its_own_word(predict: WordPredictor, model: Path) -> None:
    one, other = (
        read(predict, ["so", "bad", word, "very", "plot"]) for word in ("film", "unlikely")
    )
    assert one.shape == (5, len(WORDS))
    np.testing.assert_allclose(one[2], other[2], rtol=1e-4)
    # A masked model sees both sides of the others, a decoder what is before.
    assert np.allclose(one[1], other[1], rtol=1e-4) == (model.name == "causal")
    assert not np.allclose(one[3], other[3], rtol=1e-4)


def test_words_that_begin_alike_share_by_their_frequency(model: Path) -> None:
    predict = WordPredictor(model, [*WORDS, "unlike"], np.append(FREQUENCY, 0.15))
    chances = np.array(list(predict(["good", "film"])))
    np.testing.assert_allclose(3 * chances[:, 7], chances[:, 8])
    assert (chances.sum(axis=1) <= 1).all()


def test_a_word_is_read_with_the_tokens_near_it(predict: WordPredictor) -> None:
    text = ["unlikely", "film"] * AROUND  # of three tokens and of one
    chances = read(predict, text)
    assert chances.shape == (2 * AROUND, len(WORDS))
    assert not np.allclose(chances[0], chances[2], rtol=1e-4)
    far = read(predict, ["unlikely", "plot", *text[2:-2], "unlikely", "plot"])
    np.testing.assert_allclose(chances[AROUND], far[AROUND], rtol=1e-4)
    assert read(predict, []).shape == (0, len(WORDS))


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_a_model_of_few_positions_reads_long_texts(
    kind: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    sizes: dict[str, Any] = dict(vocab_size=len(tokenizer), hidden_size=32, num_attention_heads=2)
    saved(
        tmp_path,
        tokenizer,
        *(
            (BertForMaskedLM, BertConfig(**sizes, max_position_embeddings=16))
            if kind == "masked"
            else (GPT2LMHeadModel, GPT2Config(**sizes, max_position_embeddings=16))
        ),
    )
    predict = WordPredictor(tmp_path, WORDS, FREQUENCY)
    long = ["unlikely", "film"] * 20
    chances = read(predict, long)
    assert chances.shape == (40, len(WORDS))
    # It still reads what is near, as far as there is room.
    nearby = read(predict, [*long[:18], "bad", *long[19:]])
    assert not np.allclose(chances[19], nearby[19], rtol=1e-4)


def test_few_answers_at_once_are_the_same(
    predict: WordPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ["so", "bad", "film", "unlikely", "plot"]
    together = read(predict, text)
    batches = []
    forward = predict._model.forward

    def counted(**inputs: torch.Tensor) -> Any:
        batches.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(predict._model, "forward", counted)
    monkeypatch.setattr(language_model, "ANSWER", 1)
    np.testing.assert_allclose(read(predict, text), together, rtol=1e-4)
    assert set(batches) == {1}


def test_a_model_without_its_head_is_refused(backbone: Path) -> None:
    with pytest.raises(RaptError, match=r"got a BertModel, expected one with the head"):
        WordPredictor(backbone, WORDS, FREQUENCY)
