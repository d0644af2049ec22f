"""Errors that a user can act on: one line, what was given, what is allowed, the nearest match."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RaptError(Exception):
    """Something the user can mend; its text is one line and never holds text of a data set."""


def not_allowed(key: str, given: object, allowed: Iterable[str]) -> str:
    """The line for a name that is not one of those allowed."""
    names = sorted(allowed)
    nearest = get_close_matches(str(given), names, n=1, cutoff=0.4)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return f"{key}: {given!r} given, allowed: {', '.join(names) or 'nothing'}{hint}"
