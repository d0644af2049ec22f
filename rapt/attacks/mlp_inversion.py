"""Black-box inversion by classification."""

from __future__ import annotations

from typing import Literal

from rapt.attacks.base import Inverter, Public, Vectors
from rapt.attacks.black_box import BlackBox, each_word
from rapt.attacks.perceptron import Epochs, Hidden, LearningRate


class MlpInversion(BlackBox):
    """Black-box inversion: which word stood behind a released vector, or a word's, by a perceptron.

    It guesses words of the attacker's own texts alone.
    """

    type: Literal["mlp-inversion"]
    hidden: Hidden = 128
    epochs: Epochs = 10
    learning_rate: LearningRate = 0.003

    def learn(self, public: Public, words: list[str], seen: Vectors, seed: int) -> Inverter:
        """Learn the words as classes."""
        return Inverter(each_word(public.table, self.classifier(seen, words, seed)))
