"""The attacker who masks each word and takes the likeliest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.base import Public, Release
from rapt.attacks.inversion import MaskedToken
from rapt.attacks.language_model import WordPredictor
from rapt.audit.cases import small_table
from tests.attacks.test_bayesian import FALSE_ALARM, NONE, Shares
from tests.attacks.test_bayesian import public as public
from tests.attacks.test_predictor import FREQUENCY, WORDS
from tests.attacks.test_predictor import model as model
from tests.attacks.test_predictor import tokenizer as tokenizer
from tests.tuning.conftest import backbone as backbone

MASKED = MaskedToken(type="masked-token", model="none", sha256=None)


def teach(monkeypatch: pytest.MonkeyPatch, places: Shares) -> None:
    """Have a model that knows nouna's and nounb's chances at each place, of every text in turn."""

    def predictor(self: MaskedToken, public: Public) -> Callable[[Sequence[str]], Shares]:
        def predict(text: Sequence[str]) -> Shares:
            chances = np.zeros((len(text), len(public.table.words)))
            chances[:, :2] = np.resize(places, (len(text), 2))
            return chances

        return predict

    monkeypatch.setattr(MaskedToken, "predictor", predictor)


@pytest.fixture
def alternating(public: Callable[[Shares], Public], monkeypatch: pytest.MonkeyPatch) -> Public:
    """Texts in which nouna and nounb alternate, and a model that knows so."""
    teach(monkeypatch, np.eye(2))
    return public(np.array([[0.6, 0.4], [0.4, 0.6]]))


def test_it_reaches_the_best_success_of_who_does_not_look(
    public: Callable[[Shares], Public], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each place max_w π(w), tested exactly; what is released does not matter."""
    rng, n, chances = np.random.default_rng(0), 2000, np.array([[0.9, 0.1], [0.4, 0.6]])
    known = public(np.eye(2))
    teach(monkeypatch, chances)
    truth = np.stack([rng.choice(known.table.words[:2], n, p=own) for own in chances], axis=1)
    guessed = np.array(MASKED.fit(known, NONE, 0).words([Release([["nouna"] * 2] * n)]))
    for right, share in zip((guessed == truth).sum(axis=0), chances.max(axis=1), strict=True):
        assert binomtest(right, n, share).pvalue > FALSE_ALARM


def test_words_that_stay_are_guessed_too(alternating: Public) -> None:
    """The model has no chances for the words of the group that stays: the first will do."""
    release = Release([["the", "unheard", "nounb"]])
    assert MASKED.fit(alternating, NONE, 0).words([release]) == [["nounc", "nounb", "nouna"]]


def test_clean_text_is_no_success_of_an_attack_that_masks_it(alternating: Public) -> None:
    """Nor are words that the table has in a group that stays: in a text they may be of another."""
    clean = Release([["Nounb", "Unheard", "The"], ["Nouna", "nounb"]])
    guessed = MASKED.fit(alternating, NONE, 0).words([clean])
    assert guessed == [["nouna", "nounb", "nounc"], ["nouna", "nounb"]]


def test_it_predicts_the_words_of_the_table(model: Path) -> None:
    rng = np.random.default_rng(0)
    table = small_table(WORDS, rng.standard_normal((len(WORDS), 2)), FREQUENCY)
    attack = MASKED.model_copy(update={"model": str(model)})
    predict = attack.predictor(Public(table, np.zeros(len(WORDS), np.int64), None))
    text = ["so", "bad", "film"]
    alone = WordPredictor(model, table.words, table.frequency)
    np.testing.assert_array_equal(list(predict(text)), list(alone(text)))
