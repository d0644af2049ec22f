"""Attribute inference: who wrote a released text?"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Inference
from rapt.text.table import EmbeddingTable


class AttributeMlp(Inference):
    """Attribute inference from the mean vector of a text's released words, by a perceptron.

    It has one hidden layer of ReLUs.
    """

    source: ClassVar[str] = "Qu et al., 2021; RAPT, figure 4"
    knows: ClassVar[str] = "the embedding table; released texts of other authors with the attribute"

    type: Literal["attribute-mlp"]
    hidden: Annotated[PositiveInt, Field(description="width of the hidden layer; 768 in RAPT")]
    epochs: Annotated[PositiveInt, Field(description="passes over the attacker's own texts")]
    learning_rate: Annotated[PositiveFloat, Field(description="of Adam")]

    def guesses(
        self,
        own: tuple[NDArray[np.float32], Sequence[str]],
        victims: NDArray[np.float32],
        seed: int,
    ) -> list[str]:
        """Train on the attacker's own texts, then read the victims'."""
        # Here: params.yaml is validated with this module, and scikit-learn takes a second to load.
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

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
            return attacker.predict(victims).tolist()


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
