"""Attribute inference from what a model makes of the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from rapt.attacks.base import Inference, ModelSha256, Release, Values
from rapt.attacks.perceptron import Perceptron
from rapt.param_types import Model
from rapt.paths import MINILM

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable


class AttributeHidden(Perceptron, Inference):
    """Attribute inference from a model's mean last hidden state of a text, by a perceptron."""

    source = "RAPT, first version"
    attacker_knowledge = "released texts whose attribute is known; any public model"

    type: Literal["attribute-hidden"]
    model: Model = Field(MINILM, description="that reads the texts, as in backbones")
    sha256: ModelSha256 = None
    max_tokens: int = Field(128, ge=8, description="of a text that it reads")

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Train on what the model makes of the attacker's own texts, then read the victims'."""
        from rapt import models
        from rapt.attacks.text_features import hidden_states

        folder = models.folder(self.model, self.sha256)
        states = [hidden_states(folder, release, self.max_tokens) for release in (own, victims)]
        return self.classified(states[0], values, states[1], seed)
