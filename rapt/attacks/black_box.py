"""Base of black-box inversions: learned from pairs of words, without knowing the mechanism."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Release, Vectors, by_text
from rapt.attacks.perceptron import Perceptron

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable


class BlackBox(Perceptron, Inversion):
    """An inversion learned from words of the attacker's own texts, before and after release."""

    source = "Qu et al., 2021; RAPT, figure 4"
    attacker_knowledge = "the embedding table; texts of its own, before and after"
    reads_pairs = True

    pairs: PositiveInt = Field(20_000, description="words of its own that it learns from, at most")

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn from the first words of the attacker's own texts."""
        seen, places = own.released.seen(public.table)
        words = list(islice(chain.from_iterable(own.words), self.pairs))
        return self.learn(public, words, seen[places[: self.pairs]], seed)

    @abstractmethod
    def learn(self, public: Public, words: list[str], seen: Vectors, seed: int) -> Inverter:
        """Learn from n original words and the released vector of each, (n, d)."""


def each_word(
    table: EmbeddingTable, guess: Callable[[Vectors], list[str]]
) -> Callable[[Sequence[Release]], list[list[str]]]:
    """Wrap `guess` to invert the first copy, so that it sees each distinct vector once."""

    def words(copies: Sequence[Release]) -> list[list[str]]:
        vectors, places = copies[0].seen(table)
        likely = guess(vectors)
        return by_text(copies[0].words, (likely[place] for place in places))

    return words
