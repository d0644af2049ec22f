"""The combination of two models, where the best weights are known."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from rapt.baselines.combined import ALONE, combined, stacked, weights
from rapt.results.predictions import Predictions

FALSE_ALARM = 1e-6
Truth = NDArray[np.int64]


def witness(labels: Truth, right: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Scores of a witness who is right with this probability, and says so."""
    said = np.where(rng.random(len(labels)) < right, labels, 1 - labels)
    return np.log(np.where(np.arange(2) == said[:, None], right, 1 - right))


def test_independent_witnesses_who_are_as_sure_as_they_are_right_count_fully() -> None:
    """The posterior of both is the product of theirs; classes are equally frequent."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=20_000)
    found = weights(witness(labels, 0.8, rng), witness(labels, 0.7, rng), labels)
    assert found == pytest.approx([1, 1], abs=0.1)


def test_a_provider_who_knows_nothing_costs_nothing() -> None:
    """However sure it is: of its 80 held-out rows half are wrong, and it is not believed."""
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=80)
    local = witness(labels, 0.8, rng)
    sure = 5 * witness(rng.permutation(labels), 0.9, rng)
    weight = weights(sure, local, labels)
    assert weight[0] < 0.1
    answers = combined(weight, sure, local).argmax(axis=1)
    assert np.array_equal(answers, local.argmax(axis=1))


def test_a_provider_who_knows_all_is_believed() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(3, size=60)
    sure = 4.0 * np.eye(3)[labels]
    answers = combined(weights(sure, rng.standard_normal((60, 3)), labels), sure, np.zeros((60, 3)))
    assert np.array_equal(answers.argmax(axis=1), labels)


def test_without_rows_to_weigh_by_the_local_model_stands_alone() -> None:
    none = np.empty((0, 2))
    assert np.array_equal(weights(none, none, np.empty(0, np.int64)), ALONE)


def test_a_class_that_the_user_has_no_rows_of_keeps_scores_finite() -> None:
    local = np.array([[0.0, -np.inf]] * 4)
    weight = weights(np.zeros((4, 2)), local, np.zeros(4, np.int64))
    assert np.isfinite(combined(weight, np.zeros((4, 2)), local)).all()


def test_each_seed_is_weighed_on_its_own_held_out_rows() -> None:
    """The first seed's model knows all, the second nothing; held out are rows 1 and 3 of four."""
    rng = np.random.default_rng(3)
    train, test = rng.integers(2, size=400), rng.integers(2, size=2000)
    held = np.arange(400) % 2 == 1
    names = np.array([f"train-{i}" for i in range(400)])

    def seeds(labels: Truth) -> NDArray[np.float64]:
        return np.array([witness(labels, 0.95, rng), witness(labels, 0.5, rng)])

    def local(labels: Truth) -> NDArray[np.float64]:
        return witness(labels, 0.75, rng)[None]

    provider = {
        "train": Predictions(names[held].tolist(), train[held], seeds(train[held])),
        "test": Predictions([str(i) for i in range(2000)], test, seeds(test)),
    }
    own = {
        "train": Predictions(names.tolist(), train, local(train)),
        "test": Predictions(provider["test"].examples, test, local(test)),
    }
    first, second = stacked(provider, own).right.sum(axis=1)
    assert binomtest(int(first), 2000, 0.95).pvalue > FALSE_ALARM
    assert binomtest(int(second), 2000, 0.75).pvalue > FALSE_ALARM
