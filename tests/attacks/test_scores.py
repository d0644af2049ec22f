"""Metrics of an attack and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rapt.attacks.scores import Scores, attribute_scores, intervals, majority, successes

Right = dict[str, NDArray[np.bool_]]


def bounds_of(
    seeds: list[Right], authors: NDArray[np.int64] | None
) -> dict[str, tuple[float, float]]:
    """The intervals where each seed's guesses are right so often."""
    truth = [{name: ["me"] * len(right) for name, right in seed.items()} for seed in seeds]
    guesses = [
        {name: np.where(right, "me", "you").tolist() for name, right in seed.items()}
        for seed in seeds
    ]
    return intervals(
        [attribute_scores(*both, authors) for both in zip(truth, guesses, strict=True)]
    )


def test_texts_of_one_author_belong_together() -> None:
    """Twenty texts each of ten authors, who are told as one: as sure as ten texts would be."""
    authors = np.repeat(np.arange(10), 20)
    right = {"age": authors < 6}
    alone = {"age": np.arange(10) < 6}
    low, high = bounds_of([right, right], authors)["accuracy_age"]
    assert (low, high) == pytest.approx(bounds_of([alone, alone], None)["accuracy_age"])
    near, far = bounds_of([right, right], None)["accuracy_age"]
    assert high - low > 4 * (far - near)


def test_what_each_text_has_is_kept_of_what_privacy_is_1_minus_of() -> None:
    counted = np.array([2, 1, 2, 3])
    given = [[2, 0, 1, 3], [0, 1, 1, 0]]
    seeds = [
        Scores({"it": (np.array(right), counted), "more": (counted, counted)}, {"privacy": "it"})
        for right in given
    ]
    found = successes(seeds, list("abcd"))
    assert list(found) == ["it"] and found["it"].examples == list("abcd")
    assert found["it"].counts[:, 0].tolist() == given
    # The even texts are right about 4 of 8, the odd ones about 4 of 8, the first about 2 of 4.
    halves = [found["it"].accuracy(slice(k, None, 2)) for k in (0, 1)]
    assert [*halves, found["it"].accuracy(slice(1))] == [0.5, 0.5, 0.5]
    shares = [seed.metrics()["it"] for seed in seeds]
    assert found["it"].right.mean(axis=1) == pytest.approx(shares)


def test_metrics_are_ratios_of_sums_and_what_they_leave() -> None:
    """Also of a mean, whose interval is not bounded by 1."""
    counted = np.array([1, 3])
    ratios = {"f1": (np.array([1, 2]), counted), "error": (np.array([2.0, 6.5]), counted)}
    scores = Scores(ratios, {"empirical_privacy": "f1"})
    assert scores.metrics() == {"f1": 0.75, "error": 8.5 / 4, "empirical_privacy": 0.25}
    found = intervals([scores, scores])
    assert found["empirical_privacy"] == (1 - found["f1"][1], 1 - found["f1"][0])
    assert found["error"][0] < 8.5 / 4 < found["error"][1]
    assert found["f1"][1] <= 1 < found["error"][1]


def test_nothing_that_counts_is_no_success() -> None:
    nothing = np.zeros(2, np.int64)
    assert Scores({"f1": (nothing, nothing)}, {}).metrics() == {"f1": 0}


def test_the_majority_is_the_most_frequent_value() -> None:
    assert majority(["a", "b", "a"]) == 2 / 3
