"""Characters that nobody sees, in which something could pass through a release unnoticed."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rapt.utils.errors import RaptError

# Letters and marks that Unicode shows as nothing (Default_Ignorable_Code_Point); what else it
# shows as nothing is of category C.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def visible(text: str) -> str:
    """Return a text without what nobody sees: controls become spaces, all else vanishes.

    What vanishes: zero-width and bidirectional marks, byte-order marks, variation selectors, tags,
    private and unassigned code points.

    Raises:
        RaptError: a surrogate stands alone, as in no valid text.
    """
    shown = _IGNORABLE.sub("", text)
    return shown if shown.isprintable() else "".join(map(_visible, shown))


@lru_cache(1 << 12)
def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":
        raise RaptError("text: got half of a surrogate pair, expected Unicode text.")
    if character.isspace() or category[0] != "C":
        return character
    return " " if category == "Cc" else ""
