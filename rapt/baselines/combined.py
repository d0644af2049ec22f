"""Both together: a provider's answer to a privatized text, and the local model's to the raw one.

They are stacked (Wolpert, 1992) on the user's machine, from what the provider returns anyway. So
this costs no privacy, and every text is sent once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from rapt.results.predictions import Predictions

Logits = NDArray[np.floating[Any]]
# The local model alone: the prior's mean, with this precision of each weight.
ALONE, PRECISION = np.array([0.0, 1.0]), 1.0


def weights(provider: Logits, local: Logits, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weigh the two by texts that neither model was fitted to, float64 (2,).

    The logits are a·log p(c | released text) + b·log p(c | raw text). The weights have the highest
    posterior under a normal prior around the local model alone: a provider who knows nothing costs
    nothing.

    Args:
        provider: scores of n texts by the provider's model, (n, classes).
        local: scores by the user's own.
        labels: their classes, int64 (n,).
    """
    both = np.stack([_log(provider), _log(local)])
    rows = np.arange(len(labels))

    def loss(given: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = log_softmax(np.tensordot(given, both, 1), axis=1)
        expected = (np.exp(scores) * both).sum(axis=2)
        slope = (expected - both[:, rows, labels]).sum(axis=1) + PRECISION * (given - ALONE)
        prior = PRECISION * ((given - ALONE) ** 2).sum() / 2
        return float(prior - scores[rows, labels].sum()), slope

    found = minimize(loss, ALONE, jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2)
    return np.asarray(found.x, np.float64)


def combined(weight: NDArray[np.float64], provider: Logits, local: Logits) -> NDArray[np.float64]:
    """Return the weighed logits, float64 (n, classes)."""
    return np.asarray(np.tensordot(weight, np.stack([_log(provider), _log(local)]), 1))


def stacked(provider: dict[str, Predictions], local: dict[str, Predictions]) -> Predictions:
    """Weigh each seed on the rows that its model was not tuned on, and answer the test split.

    Args:
        provider: predictions of the splits `train`, the rows held out, and `test`.
        local: the same for one seed; its `train` has all training rows.
    """
    places = {example: place for place, example in enumerate(local["train"].examples)}
    (own,), (answers,) = local["train"].logits, local["test"].logits
    own = own[[places[example] for example in provider["train"].examples]]
    labels, test = provider["train"].labels, provider["test"]
    logits = [
        combined(weights(held_out, own, labels), scores, answers)
        for held_out, scores in zip(provider["train"].logits, test.logits, strict=True)
    ]
    return Predictions(test.examples, test.labels, np.array(logits))


def shares(provider: Mapping[str, Predictions], local: Mapping[str, Predictions]) -> bool:
    """Return whether the rows that the provider held out are among the local model's."""
    return {*provider["train"].examples} <= {*local["train"].examples}


def _log(scores: Logits) -> NDArray[np.float64]:
    """Return log-probabilities, none of them infinite, so that a weight of 0 is one."""
    return np.maximum(log_softmax(np.asarray(scores, np.float64), axis=-1), -1e3)
