import pytest

from rapt.privacy.fates import COUNTS, NOISE, Counts, Word, verbatim

TEXT = [
    Word("Film", "film", NOISE, True),
    Word("Bob", "plot", NOISE, True),
    Word("7", "<number>", "placeholder number", False),
    Word("!", "!", "verbatim punctuation", False),
]


def counted() -> Counts:
    counts = Counts(others={"id"})
    counts.add([TEXT, TEXT[1:]])
    counts.add([TEXT, []])
    return counts


def test_words_are_counted_by_their_fate_and_documents_by_their_noise() -> None:
    counts = counted()
    assert (counts.documents, counts.words, counts.most, counts.replaced) == (2, 11, 3, 3)
    assert counts.fates[NOISE] == 5
    assert counts.kinds("placeholder ") == {"number": 3}


def test_counts_are_the_same_after_a_restart_and_add_up() -> None:
    counts = COUNTS.validate_json(COUNTS.dump_json(counted()))
    assert counts == counted()
    counts.update(Counts(documents=1, most=9, others={"label"}))
    assert (counts.documents, counts.most, counts.others) == (3, 9, {"id", "label"})
    assert counts.words == 11


@pytest.mark.parametrize(
    ("word", "identifier", "expected"),
    [
        ("12", "number", "number"),
        ("a@b.c", "email", "email"),
        ("!?", None, "punctuation"),
        ("the", None, "other"),
        ("é", None, "other"),
    ],
)
def test_every_word_is_of_a_kind(word: str, identifier: str | None, expected: str) -> None:
    assert verbatim(word, identifier) == f"verbatim {expected}"
