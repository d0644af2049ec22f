import pytest

from rapt.attacks.inversion import Victims, nearest_neighbour
from rapt.privacy.categories import Scheme

WORDS = [["The", "cat", "sat"], ["the", "dog"]]
POS = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]


def test_clean_text_is_recovered_whole() -> None:
    victims = Victims(WORDS, POS, Scheme(None), str.lower)
    recovered = victims.score([nearest_neighbour(text) for text in WORDS])
    assert recovered.accuracies() == {
        "accuracy": 1,
        "accuracy_protected": 1,
        "empirical_privacy": 0,
    }
    assert victims.majority() == 2 / 5


def test_only_protected_words_count_for_empirical_privacy() -> None:
    victims = Victims(WORDS, POS, Scheme(("noun",)), str.lower)
    accuracies = victims.score([["the", "cat", "x"], ["the", "bird"]]).accuracies()
    assert accuracies["accuracy"] == pytest.approx(3 / 5)
    assert accuracies["accuracy_protected"] == accuracies["empirical_privacy"] == 1 / 2
    assert victims.majority() == 1 / 2


def test_a_guess_for_every_word() -> None:
    with pytest.raises(ValueError, match="zip"):
        Victims(WORDS, POS, Scheme(None), str).score([["the"], ["the", "dog"]])
