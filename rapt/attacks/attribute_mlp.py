"""Attribute inference from the vectors of the words: what is the author of a released text?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from rapt.attacks.base import Inference, Release, Values, Vectors, by_text
from rapt.attacks.perceptron import Perceptron

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable


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
    """The mean of what is seen of each text's words, float32 (n, d); 0 for a text without words."""
    seen, places = release.seen(table)
    means = np.zeros((len(release.words), table.dimension), np.float32)
    for mean, rows in zip(means, by_text(release.words, places), strict=True):
        if rows:
            mean[:] = seen[rows].mean(axis=0)
    return means
