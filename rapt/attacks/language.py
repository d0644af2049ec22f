"""Inversions by whoever has a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from rapt.attacks.base import Attack, Inversion, Inverter, Pairs, Public, Release
from rapt.attacks.bayesian import Prior, likeliest, posterior
from rapt.param_types import Model, Sha256

if TYPE_CHECKING:
    from rapt.attacks.predictor import WordPredictor


class LanguageModel(Attack):
    """An attack by a masked language model, or a decoder, which sees the words before alone."""

    model: Annotated[Model, Field(description="the language model, as in backbones")]
    sha256: Annotated[Sha256 | None, Field(description="of its model.safetensors; null: unchecked")]

    def predictor(self, public: Public) -> WordPredictor:
        """The model, over the words of the table."""
        from rapt import models
        from rapt.attacks.predictor import WordPredictor

        folder = models.folder(self.model, self.sha256)
        return WordPredictor(folder, public.table.words, public.table.frequency)


class MaskedToken(LanguageModel, Inversion):
    """The word that fits best among the released words around it, whichever was released.

    That of a word that stays as it is by its category is guessed, too: in a text it may have
    another category than in the table, and the attack is not to be credited with copying it.
    """

    source: ClassVar[str] = "Yue et al., 2021 (arXiv 2106.01221)"
    knows: ClassVar[str] = "a public language model"

    type: Literal["masked-token"]

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


class ContextualBayesian(LanguageModel, Inversion):
    """The likeliest originals, re-ranked by a language model on the likeliest of the others."""

    source: ClassVar[str] = "ours, after Tong et al., 2024"
    knows: ClassVar[str] = "what bayesian knows, a public language model"
    reads_channel: ClassVar[bool] = True

    type: Literal["bayesian-in-context"]
    prior: Prior
    weight: Annotated[
        float, Field(gt=0, lt=1, description="of the model in the prior; the rest is prior's")
    ]
    candidates: Annotated[PositiveInt, Field(description="originals that are re-ranked, at most")]

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Nothing is learned."""
        predictor, table = self.predictor(public), public.table

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            found = posterior(public, self.prior, copies)
            matrix = found.matrix

            def rerank(released: Sequence[str], first: Sequence[str]) -> list[str]:
                guesses = list(first)
                rows = table.rows(released)
                for at, (row, fitting) in enumerate(zip(rows, predictor(first), strict=True)):
                    span = slice(*matrix.indptr[row : row + 2]) if row >= 0 else slice(0)
                    some = np.argsort(-matrix.data[span], kind="stable")[: self.candidates]
                    if not len(some):  # released as it is
                        continue
                    originals = matrix.indices[span][some]
                    odds = fitting[originals] / found.prior[originals]
                    chances = matrix.data[span][some] * (1 - self.weight + self.weight * odds)
                    guesses[at] = table.words[originals[chances.argmax()]]
                return guesses

            first = likeliest(found, table, copies)
            return [rerank(*pair) for pair in zip(copies[0].words, first, strict=True)]

        return Inverter(invert)
