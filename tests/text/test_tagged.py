"""Tagged words, put together and taken apart."""

from rapt.text.tagged import NOTHING, Tagged

ONE = Tagged(["A", "cat"], ["DET", "NOUN"], [True, False], [None, None])
TWO = Tagged(["7"], ["NUM"], [False], ["number"])


def test_two_texts_follow_each_other_and_come_apart() -> None:
    both = ONE.then(TWO)
    assert both.words == ["A", "cat", "7"]
    assert both.identifiers == [None, None, "number"]
    assert (both.part(slice(0, 2)), both.part(slice(2, None))) == (ONE, TWO)
    assert NOTHING.then(ONE) == ONE.then(NOTHING) == ONE
