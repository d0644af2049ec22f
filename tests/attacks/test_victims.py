"""The texts under attack, and what of them a guess recovers."""

import numpy as np
import pytest

from rapt.attacks.base import Release
from rapt.attacks.scores import intervals
from rapt.attacks.victims import Victims
from rapt.privacy.categories import VERBATIM
from rapt.text.table import EmbeddingTable

WORDS = [["The", "cat", "sat"], ["the", "dog"]]
EVERY = [[0, 0, 0], [0, 0]]
NOUNS = [[VERBATIM, 0, VERBATIM], [VERBATIM, 0]]


def test_clean_text_is_recovered_whole() -> None:
    victims = Victims(WORDS, EVERY, str.lower)
    recovered = victims.score(WORDS)
    assert recovered.metrics() == {"accuracy": 1, "accuracy_protected": 1, "empirical_privacy": 0}
    assert victims.majority() == 2 / 5


def test_only_protected_words_count_for_empirical_privacy() -> None:
    victims = Victims(WORDS, NOUNS, str.lower)
    accuracies = victims.score([["the", "cat", "x"], ["the", "bird"]]).metrics()
    assert accuracies["accuracy"] == pytest.approx(3 / 5)
    assert accuracies["accuracy_protected"] == accuracies["empirical_privacy"] == 1 / 2
    assert victims.majority() == 1 / 2


def test_a_guess_for_every_word() -> None:
    with pytest.raises(ValueError, match="zip"):
        Victims(WORDS, EVERY, str).score([["the"], ["the", "dog"]])


def test_the_spread_is_the_squared_error_of_the_mean(table: EmbeddingTable) -> None:
    words = [["nouna", "nounb"], ["nounb", "the"]]
    victims = Victims(words, [[0, 0], [0, VERBATIM]], table.form)
    vectors = table.embed(["nouna", "nounb", "nounb"])
    mean = vectors.mean(axis=0)
    expected = ((vectors - mean) ** 2).mean()
    assert victims.spread(table) == pytest.approx(expected)
    errors = victims.squared_errors(
        lambda some: np.tile(mean, (len(some), 1)), Release(words), table
    )
    found = victims.score(words, errors)
    assert found.metrics()["squared_error"] == pytest.approx(expected)
    low, high = intervals([found, found])["squared_error"]
    assert low < expected < high


def test_intervals_hold_the_metrics_of_all_seeds() -> None:
    victims = Victims(WORDS, NOUNS, str.lower)
    seeds = [victims.score([["the", "cat", "x"], ["the", w]]) for w in ("dog", "bird", "bird")]
    found = intervals(seeds)
    low, high = found["accuracy_protected"]
    assert low < 4 / 6 < high
    assert found["empirical_privacy"] == (1 - high, 1 - low)
    assert found["accuracy"][0] < 10 / 15 < found["accuracy"][1]


def test_an_entity_is_recovered_if_all_its_protected_words_are() -> None:
    words = [["a", "of", "b", "|", "c"], ["d", "|", "e"], ["|"]]
    groups = [[0, VERBATIM, 0, VERBATIM, 0], [0, VERBATIM, VERBATIM], [VERBATIM]]
    places = [[range(0, 3), range(4, 5)], [range(0, 1), range(2, 3)], []]
    victims = Victims(words, groups, str, places)
    found = victims.score([["a", "?", "x", "|", "c"], ["d", "|", "e"], ["|"]]).metrics()
    # "e" is not protected, so it is no entity to recover.
    assert found["accuracy_entities"] == 2 / 3
    assert "accuracy_entities" not in Victims(words, groups, str).score(words).metrics()
