"""Membership inference: is a text of the data that an adapter was tuned on?"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rapt.attacks.base import Membership, Score, Tune

# Shadows of one kind for a candidate: with fewer, its variance is that of all candidates
# (Carlini et al., section VI-B).
FEW = 32


class MembershipLoss(Membership):
    """Membership inference by the loss: a model is surer of a text that it was tuned on."""

    source = "Yeom et al., 2018 (arXiv 1709.01604)"
    attacker_knowledge = "the adapter, or its answers; candidates as they were written, labelled"

    type: Literal["membership-loss"]

    def fit(self, labels: NDArray[np.int64], tune: Tune, seed: int) -> Score:
        """Take the probability of a candidate's own class, which falls as its loss −ln p rises."""
        return lambda probabilities: probabilities[np.arange(len(labels)), labels]


class Lira(Membership):
    """Membership inference by shadow models: is a model surer of a text than those without it?

    The attacker privatizes the candidates with noise of his own. He tunes each shadow on a random
    half of them, and fits a normal distribution to the confidence in each candidate.
    """

    source = "Carlini et al., 2022 (arXiv 2112.03570)"
    attacker_knowledge = (
        "the adapter, or its answers; candidates as they were written, labelled; the mechanism "
        "with its η; the tuner's settings"
    )

    type: Literal["lira"]
    shadows: int = Field(16, ge=4, description="models that the attacker tunes, each like one seed")
    online: bool = Field(
        True,
        description="compares shadows tuned on a candidate with those that were not; false: "
        "knows the latter alone, as if tuned before the candidate was known",
    )

    def fit(self, labels: NDArray[np.int64], tune: Tune, seed: int) -> Score:
        """Tune the shadows; each candidate is in exactly half of them."""
        half = np.tile(np.arange(self.shadows) % 2 == 1, (len(labels), 1))
        tuned_on = np.random.default_rng(seed).permuted(half, axis=1).T
        shadows = confidences(tune(tuned_on), labels)
        return lambda probabilities: scores(
            confidences(probabilities, labels), shadows, tuned_on, online=self.online
        )


def confidences(
    probabilities: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The log-odds of each candidate's own class, (…, n), given its classes' (…, n, classes).

    Unlike probabilities they are about normally distributed.
    """
    own = np.arange(probabilities.shape[-1]) == labels[:, None]
    right, wrong = (np.where(of, probabilities, 0).sum(-1) for of in (own, ~own))
    least = np.finfo(np.float64).tiny
    odds: NDArray[np.float64] = np.log(np.maximum(right, least) / np.maximum(wrong, least))
    return odds


def scores(
    asked: NDArray[np.float64],
    shadows: NDArray[np.float64],
    tuned_on: NDArray[np.bool_],
    *,
    online: bool,
) -> NDArray[np.float64]:
    """Score candidates by their confidence under an attacked model, (n,).

    Args:
        asked: the attacked model's confidences, (n,).
        shadows: the shadows' confidences, (s, n).
        tuned_on: which candidates each was tuned on, (s, n).
        online: the log-likelihood ratio of both kinds; else how far it is above those without.
    """
    mean, sd = _normal(shadows, ~tuned_on)
    without = (asked - mean) / sd  # the p-value that no member is as sure falls with it
    if not online:
        return without
    mean, sd_with = _normal(shadows, tuned_on)
    return (without**2 - ((asked - mean) / sd_with) ** 2) / 2 + np.log(sd / sd_with)


def _normal(
    shadows: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation over the chosen shadows of each candidate, (n,)."""
    of = np.ma.masked_array(shadows, ~chosen)
    variance = of.var(0, ddof=1).data
    if chosen.sum(0).min() < FEW:
        variance = np.full_like(variance, variance.mean())
    # Shadows that all say the same leave no variance.
    return of.mean(0).data, np.sqrt(variance) + np.finfo(np.float64).eps
