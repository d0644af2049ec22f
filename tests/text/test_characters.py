import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.text.characters import visible
from rapt.utils.errors import RaptError


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_left_is_seen(text: str) -> None:
    shown = visible(text)
    assert all(c.isspace() or unicodedata.category(c)[0] != "C" for c in shown)
    assert visible(shown) == shown


def test_every_visible_character_of_unicode_passes() -> None:
    """But variation selectors, fillers and the like, which are marks or letters by category."""
    gone = {
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(c)[0] != "C" and not visible(c)
    }
    assert len(gone) == 267
    assert not [c for c in gone if c.isascii() or unicodedata.category(c) not in ("Mn", "Lo", "Cf")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("na\u200bme\u2060", "name"),
        ("\ufeffbob\u202e\u2066", "bob"),
        ("a\x00b\x1b[31m", "a b [31m"),
        ("x\U000e0041\U000e007f\ufe0f\U000e0101", "x"),
        ("\ue000\u0378", ""),
        ("two\nlines\tand é, 北京 :)", "two\nlines\tand é, 北京 :)"),
    ],
)
def test_marks_vanish_and_controls_become_spaces(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(RaptError, match=r"^text: got half of a surrogate pair, expected Unicode"):
        visible("a\ud83d")
