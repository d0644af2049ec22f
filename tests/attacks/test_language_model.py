"""The language model of an attack, which the user names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rapt.attacks.base import Public
from rapt.attacks.masked_token import MaskedToken
from rapt.attacks.predictor import WordPredictor
from rapt.audit.cases import small_table
from tests.attacks.test_predictor import FREQUENCY, WORDS
from tests.attacks.test_predictor import model as model
from tests.attacks.test_predictor import tokenizer as tokenizer
from tests.tuning.conftest import backbone as backbone


def test_it_predicts_the_words_of_the_table(model: Path) -> None:
    rng = np.random.default_rng(0)
    table = small_table(WORDS, rng.standard_normal((len(WORDS), 2)), FREQUENCY)
    attack = MaskedToken(type="masked-token", model=str(model), sha256=None)
    predict = attack.predictor(Public(table, np.zeros(len(WORDS), np.int64), None))
    text = ["so", "bad", "film"]
    alone = WordPredictor(model, table.words, table.frequency)
    np.testing.assert_array_equal(list(predict(text)), list(alone(text)))
