"""The combination of two models, where the best answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.baselines.combined import combined, together
from rapt.results.predictions import Predictions

FALSE_ALARM = 1e-6


def test_it_is_the_posterior_of_two_independent_witnesses() -> None:
    """P(c | a, b) ∝ P(a | c)·P(b | c)·P(c), from P(c | a) and P(c | b) alone."""
    rng = np.random.default_rng(0)
    prior = np.array([0.7, 0.2, 0.1])
    first, second = rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(5), 3)
    joint = prior[:, None, None] * first[:, :, None] * second[:, None, :]
    expected = np.log(joint / joint.sum(axis=0))

    def posterior(likelihood: np.ndarray) -> np.ndarray:
        return np.log(prior[:, None] * likelihood / (prior @ likelihood)).T

    for a in range(4):
        found = combined(posterior(first)[[a] * 5], posterior(second), [700, 200, 100])
        normed = found - np.log(np.exp(found).sum(axis=1, keepdims=True))
        assert np.allclose(normed, expected[:, a].T)


def test_of_two_witnesses_the_surer_one_decides() -> None:
    """So both together are exactly as often right as the better of them."""
    rng, n = np.random.default_rng(1), 4000
    labels = rng.integers(2, size=n)
    strong, weak = (np.where(rng.random(n) < right, labels, 1 - labels) for right in (0.9, 0.7))
    logits = [
        np.log(np.where(np.arange(2) == said[:, None], right, 1 - right))
        for said, right in ((strong, 0.9), (weak, 0.7))
    ]
    provider = Predictions([str(i) for i in range(n)], labels, np.array([logits[1]] * 2))
    local = Predictions(provider.examples, labels, np.array([logits[0]]))
    found = together(provider, local, [1, 1])
    assert (found.logits.argmax(axis=2) == strong).all()
    assert binomtest(int(found.right[0].sum()), n, 0.9).pvalue > FALSE_ALARM


def test_a_class_that_the_user_has_no_rows_of_is_not_answered() -> None:
    local = np.array([[0.0, -np.inf]])
    assert combined(np.array([[0.0, 5.0]]), local, [3, 0]).argmax() == 0
    assert combined(np.array([[[0.0, 5.0]]] * 3), np.zeros((1, 2)), [3, 3]).shape == (3, 1, 2)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scores_need_not_be_probabilities(scale: float) -> None:
    """A constant that is added to all classes changes nothing."""
    one, other = np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]])
    assert np.allclose(combined(one + scale, other, [1, 1]), combined(one, other - scale, [1, 1]))
