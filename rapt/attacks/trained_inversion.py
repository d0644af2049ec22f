"""Inversions that are learned: from an attacker's own pairs, or from text that it privatizes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from rapt.attacks.base import (
    EncoderModel,
    Inversion,
    Inverter,
    Layers,
    LearningRate,
    ModelSha256,
    Pairs,
    Public,
    Release,
    Vectors,
    by_text,
)
from rapt.attacks.bayesian import posterior
from rapt.attacks.perceptron import AdamRate, Epochs, Hidden, Perceptron
from rapt.param_types import Names
from rapt.paths import MINILM

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable


class BlackBox(Perceptron, Inversion):
    """An inversion learned from words of the attacker's own texts, before and after release."""

    source = "Qu et al., 2021; RAPT, figure 4"
    attacker_knowledge = "the embedding table; texts of its own, before and after"
    reads_pairs = reads_states = True

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


class MlpInversion(BlackBox):
    """Black-box inversion: which word stood behind a released vector, or a word's, by a perceptron.

    It guesses words of the attacker's own texts alone.
    """

    type: Literal["mlp-inversion"]
    hidden: Hidden = 128
    epochs: Epochs = 10
    learning_rate: AdamRate = 0.003

    def learn(self, public: Public, words: list[str], seen: Vectors, seed: int) -> Inverter:
        """Learn the words as classes."""
        return Inverter(each_word(public.table, self.classifier(seen, words, seed)))


class Autoencoder(BlackBox):
    """Black-box inversion: the vector of the word behind a released one, by regression.

    The guess is the word nearest to it; `squared_error` is how far from the true word's vector.
    """

    type: Literal["autoencoder"]
    hidden: Hidden = 512

    def learn(self, public: Public, words: list[str], seen: Vectors, seed: int) -> Inverter:
        """Learn the words' vectors."""
        from rapt.privacy.neighbours import ExactSearch

        table = public.table
        decode = self.regressor(seen, table.embed(words), seed)
        search = ExactSearch(table.vectors)

        def nearest(vectors: Vectors) -> list[str]:
            return [table.words[row] for row in search(decode(vectors))]

        return Inverter(each_word(table, nearest), decode)


class TrainedReconstruction(Inversion):
    """The original of each word by an encoder that reads the whole released text.

    It is trained on public text that the attacker privatizes, with fresh noise in each pass. It
    begins as `bayesian`: P(y|w)·π(w) is its first score. It learns what context adds, and which
    words are released as they are. A beam then decides on all words of a text together.
    """

    source = "ours, after pointer networks (See et al., 2017)"
    attacker_knowledge = "what bayesian knows, a public encoder"
    reads_channel = True

    type: Literal["trained-reconstruction"]
    public_text: Names = Field(min_length=1, description="tasks whose training rows it learns from")
    model: EncoderModel = MINILM
    sha256: ModelSha256 = None
    layers: Layers = 3
    candidates: PositiveInt = Field(
        5000, description="most frequent words of public text that it can guess"
    )
    beam: PositiveInt = Field(
        8, description="likeliest words of each place that are weighed together; 1: each alone"
    )
    words: PositiveInt = Field(100_000, description="that it learns from, in all passes together")
    batch_size: PositiveInt = Field(16, description="texts of a step")
    learning_rate: LearningRate = 5e-4

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn from public text, privatized again and again.

        Raises:
            RaptError: the model is missing or is no encoder.
        """
        from rapt import models
        from rapt.attacks.reconstructor import Reconstructor

        folder = models.folder(self.model, self.sha256)
        fitted = Reconstructor.fitted(self, folder, public, posterior(public, "public", []), seed)

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            return fitted.originals(copies[0].words)

        return Inverter(invert)
