"""Inversion by a language model alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from rapt.attacks.base import Inversion, Inverter, ModelSha256, Pairs, Public
from rapt.param_types import Model

if TYPE_CHECKING:
    from rapt.attacks.predictor import WordPredictor


class MaskedToken(Inversion):
    """The word that fits best among the released words around it, whichever was released.

    The model is a masked language model, or a decoder, which sees only the words before. Words
    whose category is not protected are guessed, too, although they stay as they are. A word may
    have another category in a text than in the table, and copying it is no merit of the attack.
    """

    source = "Yue et al., 2021 (arXiv 2106.01221)"
    attacker_knowledge = "a public language model"

    type: Literal["masked-token"]
    model: Model = Field(description="the language model, as in backbones")
    sha256: ModelSha256 = None

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Nothing is learned."""
        predictor = self.predictor(public)
        table, groups = public.table, public.groups

        def guess(text: Sequence[str]) -> list[str]:
            guesses: list[str] = []
            rows = table.rows([table.form(word) for word in text])
            for row, chances in zip(rows, predictor(text), strict=True):
                if row >= 0:  # a word becomes one of its own group
                    chances = np.where(groups == groups[row], chances, -1)
                guesses.append(table.words[chances.argmax()])
            return guesses

        return Inverter(lambda copies: [guess(text) for text in copies[0].words])

    def predictor(self, public: Public) -> WordPredictor:
        """Load the model as a predictor of the table's words."""
        from rapt import models
        from rapt.attacks.predictor import WordPredictor

        folder = models.folder(self.model, self.sha256)
        return WordPredictor(folder, public.table.words, public.table.frequency)
