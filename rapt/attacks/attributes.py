"""Inference of an author's private attributes from released texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from rapt.attacks.base import (
    EncoderModel,
    Inference,
    Layers,
    LearningRate,
    ModelSha256,
    Release,
    Values,
    Vectors,
    by_text,
)
from rapt.attacks.perceptron import Perceptron
from rapt.param_types import Model
from rapt.paths import MINILM

if TYPE_CHECKING:
    from torch import Tensor

    from rapt.text.table import EmbeddingTable
    from rapt.tuning.inputs import Batch


class AttributeMlp(Perceptron, Inference):
    """Attribute inference from the mean vector of a text's released words, by a perceptron."""

    source = "Qu et al., 2021; RAPT, figure 4"
    attacker_knowledge = "the embedding table; released texts whose attribute is known"

    type: Literal["attribute-mlp"]

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Train on the attacker's own texts, then read the victims'."""
        return self.classified(mean_vectors(table, own), values, mean_vectors(table, victims), seed)


def mean_vectors(table: EmbeddingTable, release: Release) -> Vectors:
    """The mean of what is seen of each text, float32 (n, d); 0 for a text of nothing."""
    seen, places = release.seen(table)
    means = np.zeros((len(release.words), seen.shape[1]), np.float32)
    for mean, rows in zip(means, by_text(release.words, places), strict=True):
        if rows:
            mean[:] = seen[rows].mean(axis=0)
    return means


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
        from rapt.attacks.encoders import hidden_states

        folder = models.folder(self.model, self.sha256)
        states = [hidden_states(folder, release, self.max_tokens) for release in (own, victims)]
        return self.classified(states[0], values, states[1], seed)


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
        from rapt.tuning.backbones import check_vectors
        from rapt.tuning.batches import shuffled
        from rapt.tuning.inputs import collate
        from rapt.tuning.loading import load_tokenizer
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
                split = encoders.split_of(seen, tokenizer, self.max_tokens, labels)
                check_vectors(model.backbone, split.vectors)
                for rows in shuffled(split.lengths, self.batch_size, order):
                    yield collate(split, rows, tokenizer.pad_token_id), len(rows)

        def loss(batch: Batch) -> Tensor:
            return cross_entropy(model.scores(model.activations(batch), batch), batch.labels)

        total = self.epochs * len(labels)
        encoders.fine_tune(self.type, model, batches(), loss, self.learning_rate, total, "text")
        split = encoders.split_of(victims, tokenizer, self.max_tokens)
        scores = logits(model, split, tokenizer.pad_token_id, encoders.BATCH)
        return [classes[best] for best in scores.argmax(1).tolist()]


class Authorship(Inference):
    """Attribute inference from a text's released words and word pairs, by logistic regression.

    With `characters` it counts n-grams of them as well. That helps where words are the author's
    own: a released word is one of the table's, and its spelling tells no more than the word.
    """

    source = "the usual baseline of authorship attribution; Fernandes et al., 2019"
    attacker_knowledge = "released texts whose attribute is known"
    reads_words = True

    type: Literal["authorship"]
    longest: PositiveInt = Field(2, description="words in a row that count as one feature")
    characters: NonNegativeInt = Field(
        0, description="characters in a row, within words, that count as well; 0: none"
    )
    strength: PositiveFloat = Field(10.0, description="1 / the penalty on squared weights")

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Weigh the words of the attacker's own texts, then read the victims'."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline, make_union

        kinds: list[dict[str, Any]] = [{"analyzer": lambda text: _runs(text, self.longest)}]
        if self.characters:
            within_words = {"analyzer": "char_wb", "ngram_range": (1, self.characters)}
            kinds.append(within_words | {"preprocessor": " ".join})
        count = make_union(*(TfidfVectorizer(**kind, sublinear_tf=True) for kind in kinds))
        weigh = LogisticRegression(C=self.strength, max_iter=1000)
        # One thread, so that the figures do not depend on how many cores there are.
        with threadpool_limits(1):
            return {
                name: make_pipeline(count, weigh).fit(own.words, of).predict(victims.words).tolist()
                for name, of in values.items()
            }


def _runs(text: Sequence[str], longest: int) -> list[str]:
    """Every run of up to so many words."""
    return [
        " ".join(text[at : at + length])
        for length in range(1, longest + 1)
        for at in range(len(text) - length + 1)
    ]
