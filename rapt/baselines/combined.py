"""Both together: a provider's answer to a privatized text, and the local model's to the raw one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from rapt.results.predictions import Predictions

Logits = NDArray[np.floating[Any]]


def combined(provider: Logits, local: Logits, rows: Sequence[int]) -> NDArray[np.float64]:
    """Score each class by the product of both probabilities over its frequency, (…, n, classes).

    By Bayes' rule this is the answer to both together if the two err independently in each class
    (Kittler et al., 1998, product rule). It needs no text of its own to be fitted. It happens on
    the user's machine, from what the provider returns, so it costs no privacy.

    Args:
        provider: the scores of the provider's model, (…, n, classes).
        local: those of the user's own, (n, classes).
        rows: how many training rows each class has.
    """
    frequency = np.log(np.maximum(rows, 1) / np.sum(rows))
    return np.asarray(
        log_softmax(provider, axis=-1) + log_softmax(local, axis=-1) - frequency, np.float64
    )


def together(provider: Predictions, local: Predictions, rows: Sequence[int]) -> Predictions:
    """Combine the predictions of both for the same texts, seed by seed."""
    (own,) = local.logits
    return Predictions(provider.examples, provider.labels, combined(provider.logits, own, rows))
