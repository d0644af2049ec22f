"""The words of a text with their tags, however they were tagged."""

from __future__ import annotations

from typing import NamedTuple


class Tagged(NamedTuple):
    """The words of one text, in order; white space is not a word.

    Attributes:
        words: as they stand.
        pos: Universal POS tags, in context.
        space_after: whether white space follows.
        identifiers: the kind of identifier that each is, or is a part of; None where it is none.
    """

    words: list[str]
    pos: list[str]
    space_after: list[bool]
    identifiers: list[str | None]

    def then(self, other: Tagged) -> Tagged:
        """The words of both, one text after the other."""
        return Tagged(
            self.words + other.words,
            self.pos + other.pos,
            self.space_after + other.space_after,
            self.identifiers + other.identifiers,
        )

    def part(self, at: slice) -> Tagged:
        """Some of the words."""
        return Tagged(self.words[at], self.pos[at], self.space_after[at], self.identifiers[at])


NOTHING = Tagged([], [], [], [])
