"""A language model's chances of each word at a place."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from rapt.attacks import language_model
from rapt.attacks.language_model import AROUND, WordPredictor
from rapt.utils.errors import RaptError
from tests.attacks.conftest import saved

WORDS = ["good", "bad", "film", "plot", "very", "so", "likely", "unlikely"]
FREQUENCY = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])


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


@pytest.mark.parametrize("kind", ["masked", "gpt2"])
def test_a_model_of_few_positions_reads_long_texts(
    kind: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    saved(tmp_path, tokenizer, kind, max_position_embeddings=16)
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
