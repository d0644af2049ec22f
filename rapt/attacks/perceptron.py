"""The perceptron that attackers train."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Attack, Values, Vectors

Hidden = Annotated[PositiveInt, Field(description="width of the hidden layer")]
Epochs = Annotated[PositiveInt, Field(description="passes over what is learned from")]
AdamRate = Annotated[PositiveFloat, Field(description="of Adam")]


class Perceptron(Attack):
    """An attack by a perceptron with one hidden layer of ReLUs, on standardized features."""

    hidden: Hidden = 768
    epochs: Epochs = 20
    learning_rate: AdamRate = 0.001

    def classifier(
        self, features: Vectors, values: Sequence[str], seed: int
    ) -> Callable[[Vectors], list[str]]:
        """Learn classes.

        Args:
            features: (n, d).
            values: n classes.
            seed: of the weights and the batches, below 2³².

        Returns:
            what gives features (m, d) their m classes.
        """
        # Here: params.yaml is validated with this module, and scikit-learn takes a second to load.
        from sklearn.neural_network import MLPClassifier

        predict = _fitted(self._standardized(MLPClassifier, seed), features, values)
        return lambda some: predict(some).tolist()

    def classified(
        self, own: Vectors, values: Values, victims: Vectors, seed: int
    ) -> dict[str, list[str]]:
        """Learn each attribute of one's own features (n, d), and guess it of others' (m, d)."""
        return {name: self.classifier(own, of, seed)(victims) for name, of in values.items()}

    def regressor(
        self, features: Vectors, targets: Vectors, seed: int
    ) -> Callable[[Vectors], Vectors]:
        """Learn vectors, by the squared error of their standardized numbers.

        Args:
            features: (n, d).
            targets: (n, e).
            seed: of the weights and the batches, below 2³².

        Returns:
            what gives features (m, d) their vectors (m, e).
        """
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.neural_network import MLPRegressor
        from sklearn.preprocessing import StandardScaler

        mlp = self._standardized(MLPRegressor, seed)
        predict = _fitted(
            TransformedTargetRegressor(mlp, transformer=StandardScaler()), features, targets
        )
        return lambda some: predict(some).astype(np.float32)

    def _standardized(self, kind: Callable[..., Any], seed: int) -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        mlp = kind(
            hidden_layer_sizes=(self.hidden,),
            learning_rate_init=self.learning_rate,
            max_iter=self.epochs,
            random_state=seed,
        )
        return make_pipeline(StandardScaler(), mlp)


def _fitted(attacker: Any, features: Vectors, targets: Any) -> Callable[[Vectors], NDArray[Any]]:
    """Fit in one thread, so that the figures do not depend on how many cores there are."""
    from sklearn.exceptions import ConvergenceWarning

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are a parameter
        attacker.fit(features, targets)
    predict: Callable[[Vectors], NDArray[Any]] = threadpool_limits.wrap(limits=1)(attacker.predict)
    return predict
