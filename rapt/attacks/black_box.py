"""Inversions that are learned from pairs of words, without knowing the mechanism."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Texts, Vectors
from rapt.attacks.perceptron import Perceptron


class BlackBox(Perceptron, Inversion):
    """An inversion that learns from words of the attacker's own texts, before and after."""

    source: ClassVar[str] = "Qu et al., 2021; RAPT, figure 4"
    knows: ClassVar[str] = "the embedding table; texts of its own, before and after"

    pairs: Annotated[
        PositiveInt, Field(description="words of its own that it learns from, at most")
    ]

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn from the first words of the attacker's own texts."""
        words, released = (
            list(islice(chain.from_iterable(texts), self.pairs))
            for texts in (own.words, own.released)
        )
        return self.learn(public, words, released, seed)

    @abstractmethod
    def learn(self, public: Public, words: list[str], released: list[str], seed: int) -> Inverter:
        """Learn from n words and what was released for each."""


class MlpInversion(BlackBox):
    """Black-box inversion: which word stood behind the vector of a released one, by a perceptron.

    It guesses words of the attacker's own texts alone.
    """

    type: Literal["mlp-inversion"]

    def learn(self, public: Public, words: list[str], released: list[str], seed: int) -> Inverter:
        """Learn the words as classes."""
        classify = self.classifier(public.table.embed(released), words, seed)
        return Inverter(_each(lambda distinct: classify(public.table.embed(distinct))))


class Autoencoder(BlackBox):
    """Black-box inversion: the vector of the word behind a released one, through a bottleneck.

    The guess is the word nearest to it; `mse` is how far it is from the true word's vector.
    """

    type: Literal["autoencoder"]

    def learn(self, public: Public, words: list[str], released: list[str], seed: int) -> Inverter:
        """Learn the words' vectors."""
        from rapt.privacy.neighbours import ExactSearch

        table = public.table
        decode = self.regressor(table.embed(released), table.embed(words), seed)
        search = ExactSearch(table.vectors)

        def vectors(some: Sequence[str]) -> Vectors:
            return decode(table.embed(some))

        def nearest(distinct: list[str]) -> list[str]:
            return [table.words[row] for row in search(vectors(distinct))]

        return Inverter(_each(nearest), vectors)


def _each(guess: Callable[[list[str]], list[str]]) -> Callable[[Sequence[Texts]], list[list[str]]]:
    """Guess each distinct word of the first copy once."""

    def words(copies: Sequence[Texts]) -> list[list[str]]:
        distinct = list(dict.fromkeys(chain.from_iterable(copies[0])))
        likely = dict(zip(distinct, guess(distinct), strict=True))
        return [[likely[word] for word in text] for text in copies[0]]

    return words
