"""The perceptron that attackers train: classes and vectors of standardized features."""

from __future__ import annotations

import numpy as np

from rapt.attacks.attributes import AttributeMlp

MLP = AttributeMlp(type="attribute-mlp", hidden=16, epochs=60, learning_rate=0.01)


def features(seed: int) -> np.ndarray:
    """Features far from 0, one of them in other units."""
    drawn = np.random.default_rng(seed).standard_normal((400, 3))
    return (drawn * [1, 1000, 1] + 50).astype(np.float32)


def test_it_learns_classes_of_features_in_any_units() -> None:
    own, others = features(0), features(1)
    known = {"size": ["large" if row[1] > 50 else "small" for row in own]}
    found = MLP.classified(own, known, others, seed=0)
    right = np.array(found["size"]) == np.where(others[:, 1] > 50, "large", "small")
    assert right.mean() > 0.95


def test_it_learns_vectors_in_the_units_of_the_targets() -> None:
    own, others = features(0), features(1)
    found = MLP.regressor(own, 10 * own[:, :2], seed=0)(others)
    assert found.dtype == np.float32
    error = np.square(found - 10 * others[:, :2]).mean(axis=0)
    assert (error < 0.05 * (10 * others[:, :2]).var(axis=0)).all()


def test_equal_seeds_give_equal_guesses() -> None:
    own = features(0)
    once, again = (MLP.regressor(own, own[:, :2], seed=3)(own) for _ in range(2))
    np.testing.assert_array_equal(once, again)
