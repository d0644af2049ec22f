"""Attribute inference by an encoder that is fine-tuned to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from rapt.attacks.base import (
    EncoderModel,
    Inference,
    Layers,
    LearningRate,
    ModelSha256,
    Release,
    Values,
)
from rapt.paths import MINILM

if TYPE_CHECKING:
    from torch import Tensor

    from rapt.text.table import EmbeddingTable
    from rapt.tuning.inputs import Batch


class AttributeEncoder(Inference):
    """Attribute inference by an encoder that is fine-tuned on released texts.

    Its word embeddings stay as they are. Unlike a perceptron on hidden states, it learns what to
    read. Unlike counts of words, it knows which words are alike, and sees their order over the
    whole text.
    """

    source = "the usual text classifier (Devlin et al., 2019)"
    attacker_knowledge = (
        "released texts whose attribute is known; a public encoder; with fresh_noise these texts "
        "in clear and the mechanism with its η"
    )

    type: Literal["attribute-encoder"]
    model: EncoderModel = MINILM
    sha256: ModelSha256 = None
    layers: Layers = 3
    fresh_noise: bool = Field(
        False,
        description="whether it has its own texts in clear, and privatizes them anew for each "
        "epoch after the first",
    )
    epochs: PositiveInt = Field(6, description="passes over its own texts")
    batch_size: PositiveInt = Field(16, description="texts of a step")
    learning_rate: LearningRate = 3e-4
    max_tokens: int = Field(128, ge=8, description="of a text that it reads")

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Fine-tune an encoder for each attribute, then read the victims'.

        Raises:
            RaptError: the model is missing or is no encoder, or the loss is not a number.
        """
        from rapt import models

        folder = models.folder(self.model, self.sha256)
        return {name: self._guesses(folder, own, of, victims, seed) for name, of in values.items()}

    def _guesses(
        self, folder: Path, own: Release, values: Sequence[str], victims: Release, seed: int
    ) -> list[str]:
        import torch
        from torch.nn.functional import cross_entropy

        from rapt.attacks import encoders
        from rapt.attacks.text_features import BATCH, split_of
        from rapt.tuning.backbones import check_vectors, load_tokenizer
        from rapt.tuning.batches import shuffled
        from rapt.tuning.inputs import collate
        from rapt.tuning.model import Classifier
        from rapt.tuning.scoring import logits

        torch.manual_seed(seed)
        classes, tokenizer = sorted(set(values)), load_tokenizer(folder)
        labels = [classes.index(value) for value in values]
        encoder = encoders.load(folder, self.layers)
        encoder.get_input_embeddings().requires_grad_(False)
        model = Classifier(encoder, len(classes))

        def batches() -> Iterator[tuple[Batch, int]]:
            order, seen = torch.Generator().manual_seed(seed), own
            for epoch in range(self.epochs):
                if epoch and self.fresh_noise:
                    assert own.anew
                    seen = own.anew(seed, epoch)
                split = split_of(seen, tokenizer, self.max_tokens, labels)
                check_vectors(model.backbone, split.vectors)
                for rows in shuffled(split.lengths, self.batch_size, order):
                    yield collate(split, rows, tokenizer.pad_token_id), len(rows)

        def loss(batch: Batch) -> Tensor:
            return cross_entropy(model.classify(model.activations(batch), batch), batch.labels)

        total = self.epochs * len(labels)
        encoders.fine_tune(self.type, model, batches(), loss, self.learning_rate, total, "text")
        split = split_of(victims, tokenizer, self.max_tokens)
        scores = logits(model, split, tokenizer.pad_token_id, BATCH)
        return [classes[best] for best in scores.argmax(1).tolist()]
