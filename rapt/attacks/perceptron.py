"""The perceptron that attackers train."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Attack

Classify = Callable[[NDArray[np.float32]], list[str]]


class Perceptron(Attack):
    """An attack by a perceptron with one hidden layer of ReLUs, on standardized features."""

    hidden: Annotated[PositiveInt, Field(description="width of the hidden layer")]
    epochs: Annotated[PositiveInt, Field(description="passes over what is learned from")]
    learning_rate: Annotated[PositiveFloat, Field(description="of Adam")]

    def learn(self, features: NDArray[np.float32], values: Sequence[str], seed: int) -> Classify:
        """Train the perceptron.

        Args:
            features: (n, d).
            values: n classes.
            seed: of the weights and the batches, below 2³².

        Returns:
            what gives features (m, d) their m classes.
        """
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
        attacker = make_pipeline(StandardScaler(), mlp)
        # One thread, so that the figures do not depend on how many cores there are.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are a parameter
            attacker.fit(features, values)

        def classify(some: NDArray[np.float32]) -> list[str]:
            with threadpool_limits(1):
                return attacker.predict(some).tolist()

        return classify
