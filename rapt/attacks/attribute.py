"""Attribute inference: who wrote a released text?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rapt.attacks.base import Inference
from rapt.attacks.perceptron import Perceptron

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable


class AttributeMlp(Perceptron, Inference):
    """Attribute inference from the mean vector of a text's released words, by a perceptron."""

    source: ClassVar[str] = "Qu et al., 2021; RAPT, figure 4"
    knows: ClassVar[str] = "the embedding table; released texts of other authors with the attribute"

    type: Literal["attribute-mlp"]

    def guesses(
        self,
        own: tuple[NDArray[np.float32], Sequence[str]],
        victims: NDArray[np.float32],
        seed: int,
    ) -> list[str]:
        """Train on the attacker's own texts, then read the victims'."""
        return self.classifier(*own, seed)(victims)


def mean_vectors(table: EmbeddingTable, texts: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """The mean vector of each text's released words, float32 (n, d); 0 for a text without words."""
    return np.stack(
        [
            table.embed(words).mean(axis=0) if len(words) else np.zeros(table.dimension, np.float32)
            for words in texts
        ]
    )


def majority(values: Sequence[str]) -> float:
    """What always answering the commonest value reaches."""
    return max(Counter(values).values()) / len(values)
