"""Randomized response of labels. Each statistical test raises a false alarm with p < 1e-6."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from rapt.privacy.labels import RandomizedLabels

IDS = [f"example-{number}" for number in range(20_000)]


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 2.0), (4, 1.0), (3, 0.1)])
def test_a_label_s_law_is_that_of_randomized_response(classes: int, epsilon: float) -> None:
    """Between any two labels no outcome is more than e^ε times as likely, and one is exactly."""
    labels = RandomizedLabels(epsilon, classes, seed=0)
    odds = np.exp(epsilon) + classes - 1
    law = np.full(classes, 1 / odds)
    law[1] = np.exp(epsilon) / odds
    assert labels.kept == pytest.approx(law[1])
    assert np.log(law[1] / law[0]) == pytest.approx(epsilon)
    assert labels.bound.loss(3.0) == epsilon
    found = np.bincount(labels.drawn([1] * len(IDS), IDS, 0, "task"), minlength=classes)
    assert chisquare(found, law * len(IDS)).pvalue > 1e-6


@pytest.mark.parametrize(("epsilon", "changed"), [(1e-12, 0.5), (1e9, 0.0)])
def test_extreme_epsilons_are_a_coin_and_the_label(epsilon: float, changed: float) -> None:
    drawn = RandomizedLabels(epsilon, 2, seed=0).drawn([0] * len(IDS), IDS)
    assert np.mean(drawn) == pytest.approx(changed, abs=0.02)


def test_a_copy_s_labels_depend_on_its_names_and_ids_alone() -> None:
    labels = RandomizedLabels(1.0, 2, seed=0)
    given = [0, 1] * 50
    whole = labels.drawn(given, IDS[:100], 0, "task")
    assert labels.drawn(given[::-1], IDS[:100][::-1], 0, "task") == whole[::-1]
    assert labels.drawn(given, IDS[:100], 1, "task") != whole
    assert RandomizedLabels(1.0, 2, seed=1).drawn(given, IDS[:100], 0, "task") != whole


def test_the_labels_of_the_test_split_stay() -> None:
    table = pa.table({"example_id": IDS[:100], "label": pa.array([0, 1] * 50, pa.int64())})
    labels = RandomizedLabels(0.5, 2, seed=0)
    assert labels.of(table, "test", 0) is table
    drawn = labels.of(table, "train", 0)
    assert drawn.schema == table.schema and drawn["label"] != table["label"]
