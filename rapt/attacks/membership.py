"""Membership inference: is a text of the data that an adapter was tuned on?"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rapt.attacks.base import Membership, Score, Tune


class MembershipLoss(Membership):
    """Membership inference by the loss: a model is surer of a text that it was tuned on."""

    source = "Yeom et al., 2018 (arXiv 1709.01604)"
    attacker_knowledge = "the adapter, or its answers; candidates as they were written, labelled"

    type: Literal["membership-loss"]

    def fit(self, labels: NDArray[np.int64], tune: Tune, seed: int) -> Score:
        """Take the probability of a candidate's own class, which falls as its loss −ln p rises."""
        return lambda probabilities: probabilities[np.arange(len(labels)), labels]
