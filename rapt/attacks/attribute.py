"""Attribute inference: what is the author of a released text?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Inference, Release, Values, Vectors
from rapt.attacks.perceptron import Perceptron
from rapt.param_types import Model, Sha256

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable


class AttributeMlp(Perceptron, Inference):
    """Attribute inference from the mean vector of a text's released words, by a perceptron."""

    source: ClassVar[str] = "Qu et al., 2021; RAPT, figure 4"
    knows: ClassVar[str] = "the embedding table; released texts whose attribute is known"

    type: Literal["attribute-mlp"]

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Train on the attacker's own texts, then read the victims'."""
        return self.classified(mean_vectors(table, own), values, mean_vectors(table, victims), seed)


class AttributeHidden(Perceptron, Inference):
    """Attribute inference from a model's mean last hidden state of a text, by a perceptron."""

    source: ClassVar[str] = "RAPT, first version"
    knows: ClassVar[str] = "released texts whose attribute is known; any public model"

    type: Literal["attribute-hidden"]
    model: Annotated[Model, Field(description="that reads the texts, as in backbones")]
    sha256: Annotated[Sha256 | None, Field(description="of its model.safetensors; null: unchecked")]
    max_tokens: Annotated[int, Field(ge=8, description="of a text that it reads")]

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Train on what the model makes of the attacker's own texts, then read the victims'."""
        from rapt import models
        from rapt.attacks.reading import hidden_states

        folder = models.folder(self.model, self.sha256)
        states = [hidden_states(folder, release, self.max_tokens) for release in (own, victims)]
        return self.classified(states[0], values, states[1], seed)


class Authorship(Inference):
    """Attribute inference from a text's released words and word pairs, by logistic regression."""

    source: ClassVar[str] = "the usual baseline of authorship attribution; Fernandes et al., 2019"
    knows: ClassVar[str] = "released texts whose attribute is known"

    type: Literal["authorship"]
    longest: Annotated[PositiveInt, Field(description="words in a row that count as one feature")]
    strength: Annotated[PositiveFloat, Field(description="1 / the penalty on squared weights")]

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Weigh the words of the attacker's own texts, then read the victims'."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        count = TfidfVectorizer(
            analyzer=lambda text: _runs(text, self.longest), sublinear_tf=True, dtype=np.float64
        )
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


def mean_vectors(table: EmbeddingTable, release: Release) -> Vectors:
    """The mean of what is seen of each text's words, float32 (n, d); 0 for a text without words."""
    seen, places = release.seen(table)
    rows = iter(places)
    means = np.zeros((len(release.words), table.dimension), np.float32)
    for mean, text in zip(means, release.words, strict=True):
        if len(text):
            mean[:] = seen[list(islice(rows, len(text)))].mean(axis=0)
    return means


def majority(values: Sequence[str]) -> float:
    """What always answering the commonest value reaches."""
    return max(Counter(values).values()) / len(values)
