"""Inversion by the channel and a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Release
from rapt.attacks.bayesian import Prior, likeliest, posterior
from rapt.attacks.language_model import LanguageModel


class ContextualBayesian(LanguageModel, Inversion):
    """The likeliest originals, re-ranked by a language model on the likeliest of the others."""

    source: ClassVar[str] = "ours, after Tong et al., 2024"
    attacker_knowledge: ClassVar[str] = "what bayesian knows, a public language model"
    reads_channel: ClassVar[bool] = True

    type: Literal["bayesian-in-context"]
    prior: Prior = "release"
    weight: Annotated[
        float, Field(gt=0, lt=1, description="of the model in the prior; the rest is prior's")
    ] = 0.5
    candidates: Annotated[
        PositiveInt, Field(description="originals that are re-ranked, at most")
    ] = 100

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
