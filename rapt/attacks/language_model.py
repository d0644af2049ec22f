"""Base of the attacks by a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from rapt.attacks.base import Attack, Public
from rapt.param_types import Model, Sha256

if TYPE_CHECKING:
    from rapt.attacks.predictor import WordPredictor


class LanguageModel(Attack):
    """An attack by a masked language model, or by a decoder, which sees only preceding words."""

    model: Annotated[Model, Field(description="the language model, as in backbones")]
    sha256: Annotated[
        Sha256 | None, Field(description="of its model.safetensors; null: unchecked")
    ] = None

    def predictor(self, public: Public) -> WordPredictor:
        """Load the model as a predictor of the table's words."""
        from rapt import models
        from rapt.attacks.predictor import WordPredictor

        folder = models.folder(self.model, self.sha256)
        return WordPredictor(folder, public.table.words, public.table.frequency)
