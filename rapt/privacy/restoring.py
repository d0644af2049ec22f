"""Entities put back into a written text, by the user's secret map of one example.

The map is made of an example's words and of their release, which both lie with the user. It is kept
in no file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rapt.text.mentions import FUNCTION, entities
from rapt.text.tagged import Tagged

if TYPE_CHECKING:
    import pyarrow as pa

# Of 10⁹ words of English text, by its logarithm, that of the rarest function word.
COMMON = 6.5


class Map:
    """The originals of each entity of a source, and of each of its words.

    Attributes:
        originals: for each released form, in lower case and each word with the space after it, the
            originals that it may stand for. Whole entities come first, then single words, each in
            the order of the source.
    """

    def __init__(self, source: Tagged, released: Sequence[str]) -> None:
        """Read the map of a source of triples from its release, word for word.

        A single word is no form if it says little by itself, before or after. Nor is one that also
        stands in clear in the source.
        """
        self.originals: dict[tuple[str, ...], list[str]] = {}
        spans = entities(source)
        inside = {at for span in spans for at in span}
        in_clear = {word.lower() for at, word in enumerate(source.words) if at not in inside}
        for span in spans:
            if len(span) > 1 or says_much(released[span.start], source.pos[span.start]):
                spaced = [released[at] + " " * source.space_after[at] for at in span]
                self._add([*spaced[:-1], released[span.stop - 1]], _joined(source, span))
        for at in sorted(inside):
            word = released[at]
            if says_much(word, source.pos[at]) and word.lower() not in in_clear:
                self._add([word], source.words[at])
        forms = sorted(self.originals, key=lambda form: (len(form), len("".join(form))))
        self._forms = forms[::-1]
        each = (f"({_pattern(form)})" for form in self._forms)
        # At each place the first pattern that matches is taken: the longest.
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(each)})(?!\w)", re.IGNORECASE)

    def _add(self, released: Sequence[str], original: str) -> None:
        form = tuple(word.lower() for word in released)
        known = self.originals.setdefault(form, [])
        if original not in known:
            known.append(original)

    @property
    def collisions(self) -> int:
        """The number of released forms that stand for several originals: the first is taken."""
        return sum(len(originals) > 1 for originals in self.originals.values())

    def restore(self, text: str) -> str:
        """Put the originals in the place of what was released for them, the longest forms first."""
        if not self.originals:
            return text
        first = [self.originals[form][0] for form in self._forms]
        return self._pattern.sub(lambda match: first[(match.lastindex or 0) - 1], text)


def _pattern(form: Sequence[str]) -> str:
    """Return the pattern of a form: words apart as in the source, signs at any distance.

    So `the me` is not found in `theme`, but `rome , italy` in `Rome, Italy`.
    """
    pattern = re.escape(form[0].strip())
    for before, after in pairwise(form):
        of_words = before.strip()[-1].isalnum() and after[0].isalnum()
        gap = r"\s*" if not of_words else r"\s+" if before.endswith(" ") else ""
        pattern += gap + re.escape(after.strip())
    return pattern


def says_much(released: str, pos: str) -> bool:
    """Whether a word is no function word, nor what was released for it a sign or such a word."""
    from wordfreq import zipf_frequency  # its lists take a moment to load

    is_sign = not any(map(str.isalnum, released))
    return pos not in FUNCTION and not is_sign and zipf_frequency(released, "en") < COMMON


def maps(tagged: pa.Table, released: pa.Table) -> list[Map]:
    """Return the map of each row of a tagged split of sources, and of their release."""
    columns = [tagged[name].to_pylist() for name in ("words", "pos", "space_after", "identifier")]
    pairs = zip(zip(*columns, strict=True), released["words"].to_pylist(), strict=True)
    return [Map(Tagged(*source), words) for source, words in pairs]


def _joined(source: Tagged, span: range) -> str:
    words = (source.words[at] + " " * source.space_after[at] for at in span)
    return "".join(words).strip()
