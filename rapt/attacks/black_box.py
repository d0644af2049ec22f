"""Inversion that is learned from pairs of words, without knowing the mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Texts
from rapt.attacks.perceptron import Perceptron


class MlpInversion(Perceptron, Inversion):
    """Black-box inversion: which word stood behind a released vector, learned by a perceptron.

    It guesses words of the attacker's own texts alone.
    """

    source: ClassVar[str] = "Qu et al., 2021; RAPT, figure 4"
    knows: ClassVar[str] = "the embedding table; texts of its own, before and after"

    type: Literal["mlp-inversion"]
    pairs: Annotated[
        PositiveInt, Field(description="words of its own that it learns from, at most")
    ]

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn from the first words of the attacker's own texts."""
        words, released = (
            list(islice(chain.from_iterable(texts), self.pairs))
            for texts in (own.words, own.released)
        )
        classify = self.learn(public.table.embed(released), words, seed)

        def invert(copies: Sequence[Texts]) -> list[list[str]]:
            distinct = list(dict.fromkeys(chain.from_iterable(copies[0])))
            guessed = classify(public.table.embed(distinct))
            likely = dict(zip(distinct, guessed, strict=True))
            return [[likely[word] for word in text] for text in copies[0]]

        return invert
