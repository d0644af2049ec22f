"""Texts whose context a language model knows, in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rapt.attacks.base import Public
from rapt.attacks.bayesian_in_context import ContextualBayesian
from rapt.attacks.language_model import LanguageModel
from rapt.attacks.masked_token import MaskedToken
from tests.attacks.test_bayesian import Shares
from tests.attacks.test_bayesian import public as public
from tests.tuning.conftest import backbone as backbone

CONTEXT = ContextualBayesian(
    type="bayesian-in-context",
    model="none",
    sha256=None,
    prior="public",
    weight=0.999,
    candidates=5,
)
MASKED = MaskedToken(type="masked-token", model="none", sha256=None)


def teach(monkeypatch: pytest.MonkeyPatch, places: Shares) -> None:
    """Have a model that knows nouna's and nounb's chances at each place, of every text in turn."""

    def predictor(self: LanguageModel, public: Public) -> Callable[[Sequence[str]], Shares]:
        def predict(text: Sequence[str]) -> Shares:
            chances = np.zeros((len(text), len(public.table.words)))
            chances[:, :2] = np.resize(places, (len(text), 2))
            return chances

        return predict

    monkeypatch.setattr(LanguageModel, "predictor", predictor)


@pytest.fixture
def alternating(public: Callable[[Shares], Public], monkeypatch: pytest.MonkeyPatch) -> Public:
    """Texts in which nouna and nounb alternate; a model that knows so, and where a text begins.

    A word is released as the other one with 0.4.
    """
    teach(monkeypatch, np.eye(2))
    return public(np.array([[0.6, 0.4], [0.4, 0.6]]))
