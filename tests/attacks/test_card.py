"""Attacks on a machine with a second device: they compute on the CPU, and mix no tensors."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rapt.attacks.language_model import WordPredictor
from rapt.text.table import EmbeddingTable
from rapt.utils.device import device
from tests.attacks import (
    test_attributes,
    test_encoders,
    test_entities,
    test_language_model,
    test_reconstructor,
    test_text_decoder,
)
from tests.card import CARD, card


@pytest.fixture(autouse=True)
def beside_a_card() -> Iterator[None]:
    with card():
        assert device() == CARD
        yield


def test_hidden_states(backbone: Path) -> None:
    test_encoders.test_hidden_states_are_those_of_each_text_alone(backbone)
    test_encoders.test_hidden_states_take_released_vectors_for_words(backbone)


def test_a_language_model(model: Path) -> None:
    predict = WordPredictor(model, test_language_model.WORDS, test_language_model.FREQUENCY)
    test_language_model.test_a_place_is_predicted_without_its_own_word(predict, model)


def test_a_reconstruction(table: EmbeddingTable, encoder: Path) -> None:
    test_reconstructor.test_untrained_it_decides_by_channel_and_frequency(table, encoder)


def test_a_decoder_of_texts() -> None:
    test_text_decoder.test_equal_seeds_write_equal_texts()


def test_a_recognizer(backbone: Path, tmp_path: Path) -> None:
    test_entities.test_one_seed_gives_one_recognizer_whatever_the_cores(backbone, tmp_path)


@pytest.mark.slow
def test_an_encoder_of_attributes(attack: Callable, table: EmbeddingTable) -> None:
    test_attributes.test_an_encoder_reads_the_order_of_words_and_nothing_where_nothing_is(
        attack, table, told=True
    )
