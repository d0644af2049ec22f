"""Entity recognition: names, places and dates that can be read off a released text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from rapt.attacks.base import Attack, EncoderModel, LearningRate, ModelSha256, Texts
from rapt.paths import MINILM

if TYPE_CHECKING:
    from rapt.attacks.recognizer import Recognizer


class Ner(Attack):
    """Named entities read off the released words by a token classifier, tuned on clean text."""

    source = "the usual token classifier (Devlin et al., 2019)"
    attacker_knowledge = "clean texts of its own with their entities; a public encoder"

    type: Literal["ner"]
    model: EncoderModel = MINILM
    sha256: ModelSha256 = None
    epochs: PositiveInt = Field(5, description="passes over its own texts")
    batch_size: PositiveInt = Field(16, description="texts, or parts of them, of a step")
    learning_rate: LearningRate = 3e-4
    max_tokens: int = Field(128, ge=8, description="read at once; longer texts are read in parts")

    def fit(self, texts: Texts, tags: Texts, seed: int) -> Recognizer:
        """Learn to tag the words of clean texts of the attacker's own, by their BIO tags.

        Raises:
            RaptError: the model is missing or is no encoder, it reads fewer tokens than
                max_tokens, or the loss is not a number.
        """
        from rapt import models
        from rapt.attacks.recognizer import Recognizer

        folder = models.folder(self.model, self.sha256)
        return Recognizer.fitted(self, folder, texts, tags, seed)

    def load(self, folder: Path) -> Recognizer:
        """Load a fitted recognizer from its folder."""
        from rapt.attacks.recognizer import Recognizer

        return Recognizer.load(folder, self.max_tokens)
