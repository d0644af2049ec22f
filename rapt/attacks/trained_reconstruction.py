"""Inversion by an encoder that is trained on self-made pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

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
)
from rapt.attacks.bayesian import posterior
from rapt.param_types import Names
from rapt.paths import MINILM


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
