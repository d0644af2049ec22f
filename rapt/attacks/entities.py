"""Entity recognition: names, places and dates that can be read off a released text."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from rapt.attacks.base import Attack, EncoderModel, LearningRate, ModelSha256
from rapt.paths import MINILM


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
