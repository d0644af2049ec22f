from __future__ import annotations

from collections.abc import Callable

from rapt.release.statement import COUNTS, Counts, statement
from rapt.release.text import NOISE, TextPrivatizer, Word
from tests.release.conftest import FOUR

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
    assert counts.kinds("placeholder ") == {
        "number": 3,
        "email": 0,
        "url": 0,
        "handle": 0,
        "markup": 0,
    }


def test_counts_are_the_same_after_a_restart_and_add_up() -> None:
    counts = COUNTS.validate_json(COUNTS.dump_json(counted()))
    assert counts == counted()
    counts.update(Counts(documents=1, most=9, others={"label"}))
    assert (counts.documents, counts.most, counts.others) == (3, 9, {"id", "label"})
    assert counts.words == 11


def test_the_statement_says_what_is_released_as_it_is(
    make: Callable[..., TextPrivatizer], pct2t: TextPrivatizer
) -> None:
    content = statement(pct2t, ["text"], counted())
    assert content["columns"] == ["id"]
    assert content["spacing"] == "single spaces"
    assert "Columns released as they are: id." in content["not_covered"]
    assert any("are replaced by placeholders" in gap for gap in content["not_covered"])
    kept = make(eta=1, categories=FOUR, keep_identifiers=True, keep_spacing=True)
    content = statement(kept, ["text"], Counts())
    assert content["spacing"] == "as in the texts"
    assert not any("placeholders" in gap for gap in content["not_covered"])
