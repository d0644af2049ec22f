"""Attribute inference: who wrote a released text?"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from rapt.text.table import EmbeddingTable


@dataclass(frozen=True)
class AttributeMlp:
    """A multilayer perceptron with one hidden layer of ReLUs (RAPT; Qu et al.).

    Attributes:
        hidden: width of the layer; 768 in the papers.
        epochs: passes over the attacker's own texts.
        learning_rate: of Adam.
    """

    hidden: int
    epochs: int
    learning_rate: float

    def accuracy(
        self,
        own: tuple[NDArray[np.float32], Sequence[str]],
        victims: tuple[NDArray[np.float32], Sequence[str]],
        seed: int,
    ) -> float:
        """Train on the attacker's own texts, score on the victims'.

        Args:
            own: features (n, d) and attribute values.
            victims: likewise, of other texts.
            seed: of the weights and the batches, below 2³².
        """
        mlp = MLPClassifier(
            (self.hidden,),
            learning_rate_init=self.learning_rate,
            max_iter=self.epochs,
            random_state=seed,
        )
        # One thread, so that the figures do not depend on how many cores there are.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are a parameter
            attacker = make_pipeline(StandardScaler(), mlp).fit(*own)
            return float(attacker.score(*victims))


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
