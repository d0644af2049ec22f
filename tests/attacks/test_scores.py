"""Metrics of an attack and their intervals; those of entities against seqeval itself."""

import numpy as np
import pytest
from numpy.typing import NDArray
from seqeval.metrics import f1_score, precision_score, recall_score

from rapt.attacks.scores import (
    Scores,
    attribute_scores,
    blind,
    entities_named,
    entity_scores,
    intervals,
    linkage_scores,
    majority,
    successes,
)

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
    ratios = {"f1": (np.array([1, 2]), counted), "squared_error": (np.array([2.0, 6.5]), counted)}
    scores = Scores(ratios, {"empirical_privacy": "f1"})
    assert scores.metrics() == {"f1": 0.75, "squared_error": 8.5 / 4, "empirical_privacy": 0.25}
    found = intervals([scores, scores])
    assert found["empirical_privacy"] == (1 - found["f1"][1], 1 - found["f1"][0])
    assert found["squared_error"][0] < 8.5 / 4 < found["squared_error"][1]
    assert found["f1"][1] <= 1 < found["squared_error"][1]


@pytest.mark.parametrize(("first", "low"), [(50, 0.929), (49, 0.940)])
def test_linkage_that_hardly_fails_has_an_interval_within_1(first: int, low: float) -> None:
    """Clopper and Pearson (1934) of 50 of 50; Student's t of 49 of 50, cut off at 1."""
    scores = np.eye(50)
    scores[first:] = -scores[first:]
    found = intervals([linkage_scores(scores, 0)])
    assert found["linked"] == pytest.approx((low, 1.0), abs=5e-4)
    assert found["empirical_privacy"] == (0.0, 1 - found["linked"][0])
    assert found["auc"][1] == found["linked_10"][1] == 1 and found["rank"][1] >= 1


def test_nothing_that_counts_is_no_success() -> None:
    nothing = np.zeros(2, np.int64)
    assert Scores({"f1": (nothing, nothing)}, {}).metrics() == {"f1": 0}


def test_the_majority_is_the_most_frequent_value() -> None:
    assert majority(["a", "b", "a"]) == 2 / 3


TRUTH = [
    ["B-PER", "I-PER", "O", "B-LOC"],  # all found
    ["B-PER", "I-PER", "O", "B-LOC"],  # half of a name is no name, and a place no person
    ["O", "B-PER", "B-PER"],  # two of one type side by side, run together
    ["O", "O"],  # nothing there, and one found
    [],
]
GUESSES = [
    ["B-PER", "I-PER", "O", "B-LOC"],
    ["B-PER", "O", "O", "B-PER"],
    ["O", "B-PER", "I-PER"],
    ["B-LOC", "O"],
    [],
]


def tags(seed: int) -> list[list[str]]:
    """Texts of random tags, also with an I that follows upon no B, as classifiers give."""
    rng = np.random.default_rng(seed)
    kinds = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    return [list(rng.choice(kinds, length)) for length in range(12)]


def test_counts_by_hand() -> None:
    found = entity_scores(TRUTH, GUESSES)
    (right, guessed), (_, named) = found.ratios["precision"], found.ratios["recall"]
    assert named.tolist() == [2, 2, 2, 0, 0]
    assert entities_named(TRUTH) == 6
    assert guessed.tolist() == [2, 2, 1, 1, 0]
    assert right.tolist() == [2, 0, 0, 0, 0]
    assert found.metrics() == pytest.approx(
        {"precision": 2 / 6, "recall": 2 / 6, "f1": 4 / 12, "empirical_privacy": 8 / 12}
    )


def test_metrics_are_those_of_seqeval() -> None:
    for seed in range(20):
        truth, guesses = tags(seed), tags(seed + 100)
        found = entity_scores(truth, guesses).metrics()
        for name, score in (("precision", precision_score), ("recall", recall_score)):
            assert found[name] == pytest.approx(score(truth, guesses))
        assert found["f1"] == pytest.approx(f1_score(truth, guesses))
        assert found["empirical_privacy"] == 1 - found["f1"]


def test_the_baseline_is_the_best_constant_answer() -> None:
    for seed in range(20):
        truth = tags(seed)
        same = [[[f"B-{kind}"] * len(text) for text in truth] for kind in ("PER", "LOC")]
        assert blind(truth) == pytest.approx(max(f1_score(truth, guesses) for guesses in same))
    assert blind([["O", "O"], []]) == 0


def test_no_entities_are_no_success() -> None:
    nothing = [["O", "O"]]
    assert entity_scores(nothing, nothing).metrics()["f1"] == 0


def test_the_interval_of_f1_holds_it_in_nineteen_of_twenty_draws() -> None:
    """Texts with one or two entities, each found with 0.7, beside a false one with 0.3.

    F1 = 2·0.7·1.5 / (1.5 + 0.7·1.5 + 0.3) = 0.737. Within 5 standard deviations of 400 draws.
    """
    rng = np.random.default_rng(0)
    expected = 2 * 0.7 * 1.5 / (1.5 + 0.7 * 1.5 + 0.3)
    held = 0
    for _ in range(400):
        named = rng.integers(1, 3, 200)
        right = rng.binomial(named, 0.7)
        guessed = right + rng.binomial(1, 0.3, 200)
        found = Scores({"f1": (2 * right, guessed + named)}, {"empirical_privacy": "f1"})
        low, high = intervals([found])["f1"]
        private = intervals([found])["empirical_privacy"]
        assert private == (1 - high, 1 - low)
        held += low <= expected <= high
    assert held / 400 == pytest.approx(0.95, abs=5 * np.sqrt(0.95 * 0.05 / 400))
