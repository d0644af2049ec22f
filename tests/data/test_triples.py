"""Triples as a line of text."""

from rapt.data import triples

TWO = ['Bionico | country | "Mexico"', "Bionico | dish_variation | Ice_cream"]


def test_triples_are_a_line_of_text_and_back() -> None:
    line = triples.source(TWO)
    assert line == "Bionico | country | Mexico && Bionico | dish variation | Ice cream"
    assert triples.entities(line) == ["Bionico", "Mexico", "Ice cream"]
    assert triples.words_alone(line) == "Bionico country Mexico Bionico dish variation Ice cream"
    assert triples.are_in(line)


def test_a_text_without_triples_has_no_entities() -> None:
    for text in ("one two", "one | two", "a | b | c && d"):
        assert not triples.are_in(text)
    for part in ("", " ", "\u200b", "|", "& b", "x&&y", "b &"):
        assert not triples.are_in(f"a | {part} | c"), part
    assert triples.are_in("Johnson & Johnson | R&D | AT&T")
    assert triples.entities("one two") == []
