"""Entities put back into a text by the user's map."""

import pytest

from rapt.privacy.restoring import Map
from rapt.text.tagged import Tagged

SOURCE = [
    "Aarhus",
    "Airport",
    "|",
    "city",
    "served",
    "|",
    "Aarhus",
    ",",
    "Denmark",
    "&&",
    "Aarhus",
    "Airport",
    "|",
    "runway",
    "|",
    "10R",
]
SOURCE[SOURCE.index("&&") : SOURCE.index("&&") + 1] = ["&", "&"]


def of(released: dict[str, str], words: list[str] = SOURCE, glued: str = "") -> Map:
    """Make the map of a source; no space follows the words that are in `glued`."""
    tags = ["PUNCT" if word == "," else "ADP" if word == "of" else "PROPN" for word in words]
    source = Tagged(words, tags, [word not in glued for word in words], [None] * len(words))
    return Map(source, [released.get(word, word) for word in words])


NOISY = {"Aarhus": "denver", "Airport": "station", "Denmark": "chile", "10R": "9z"}


def test_a_text_gets_its_entities_back() -> None:
    secret = of(NOISY)
    text = "Denver Station serves denver in Chile. Its runway is 9z, and denverites like it."
    assert secret.restore(text) == (
        "Aarhus Airport serves Aarhus in Denmark. Its runway is 10R, and denverites like it."
    )
    assert secret.collisions == 0


def test_the_longest_form_comes_first_and_what_was_put_back_stays() -> None:
    # "chile" became "denver", and "denver" alone is Aarhus: nothing is replaced twice.
    secret = of({**NOISY, "Denmark": "aarhus"})
    assert secret.restore("denver, aarhus") == "Aarhus , Denmark"
    assert secret.restore("aarhus") == "Denmark"


def test_two_originals_of_one_form_are_counted_and_the_first_is_taken() -> None:
    secret = of({**NOISY, "Denmark": "station"})
    assert secret.collisions == 1
    assert secret.restore("station") == "Airport"


def test_a_word_that_says_nothing_is_put_back_in_its_entity_alone() -> None:
    words = ["Invasion", "of", "Panama", "|", "year", "|", "1989"]
    secret = of({"of": "with", "Invasion": "party", "Panama": "tea"}, words)
    assert secret.restore("A party with tea.") == "A Invasion of Panama."
    assert secret.restore("He left with tea.") == "He left with Panama."


def test_a_placeholder_is_a_form_as_others() -> None:
    assert of({"10R": "<number>"}).restore("It is <number>.") == "It is 10R."


@pytest.mark.parametrize("text", ["", "nothing of it"])
def test_a_text_without_forms_stays(text: str) -> None:
    assert of(NOISY).restore(text) == text


def test_letters_that_only_a_match_takes_for_each_other_are_put_back() -> None:
    """The regular expression takes a dotless i for an i, lower case does not."""
    assert of({"Aarhus": "an\u0131t\u0131"}).restore("ANITI is near.").endswith("is near.")


def test_short_words_and_words_in_clear_are_no_forms() -> None:
    secret = of({"Aarhus": "the", "Denmark": ".", "Airport": "runway"})
    assert secret.restore("He sees the long runway .") == "He sees the long runway ."
    assert secret.restore("the runway") == "Aarhus Airport"


@pytest.mark.parametrize(
    ("words", "glued", "text", "expected"),
    [
        # Of letters the space counts: a form is not found inside of another word.
        (
            ["Walt", "Disney"],
            "",
            "gregsoup theme Greg  Soup the me",
            "gregsoup theme Walt Disney The Sea",
        ),
        (["Walt", "Disney"], "", "Greg  Soup", "Walt Disney"),
        (["comics", "Character"], "comics", "a gregsoup.", "a comicsCharacter."),
        (["comics", "Character"], "comics", "a greg soup.", "a comics Character."),
        # Of signs it does not, and what was glued in the source is glued again.
        (["Walt", "(", "Disney"], "Walt(", "greg (soup", "Walt(Disney"),
        (["Walt", "(", "Disney"], "(", "greg(soup", "Walt (Disney"),
    ],
)
def test_a_form_is_as_close_as_its_words(
    words: list[str], glued: str, text: str, expected: str
) -> None:
    released = {words[0]: "greg", words[-1]: "soup", "The": "the", "Sea": "me"}
    source = [*words, "|", "x", "|", "The", "Sea"]
    assert of(released, source, glued).restore(text) == expected
