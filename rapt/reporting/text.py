"""How the report writes numbers and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MINUS = "\N{MINUS SIGN}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
NBSP = "\N{NO-BREAK SPACE}"


def percent(share: float | None, sd: float | None = None) -> str:
    """A share in percent, to one place, with its standard deviation where there is one."""
    if share is None:
        return "–"
    spread = f"{NBSP}{PLUS_MINUS}{NBSP}{100 * sd:.1f}" if sd is not None else ""
    return f"{_signed(100 * share, '.1f')}{spread}"


def span(shares: Iterable[float | None]) -> str:
    """The least and the greatest of some shares in percent; one number where they are equal."""
    known = sorted(share for share in shares if share is not None)
    return " to ".join(dict.fromkeys(percent(share) for share in (known[:1] + known[-1:]))) or "–"


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    return _signed(100 * difference, "+.1f")


def number(value: float | None, sign: str = "") -> str:
    """A number in its own unit, to one place; with a sign where one is asked for."""
    return "–" if value is None else _signed(value, f"{sign}.1f")


def eta_text(eta: str) -> str:
    """η in a sentence."""
    return f"η{NBSP}={NBSP}{eta}"


def eta_number(eta: float | None) -> str:
    """An η that was computed, to three digits and more; None: none is too large."""
    if eta is None:
        return "∞"
    return f"{eta:.1f}" if eta >= 10 else f"{eta:.3g}"


def group_text(group: Sequence[str]) -> str:
    """The name of a group of cells."""
    return " · ".join(group)


def attack_text(attack: str, task: str, target: str) -> str:
    """What an attack is after."""
    return f"{attack} on {task}: {target}"


def listing(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *head, last = items or ["nothing"]
    return f"{', '.join(head)} and {last}" if head else last


def unproven(doubt: str | None) -> str:
    """What a figure's caption says, at its end, of an attack that is not known to work."""
    return " Unproven: the attack has no cell on clean text." if doubt == "unproven" else ""


def count(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def flat(prefix: str, section: Mapping[str, Any]) -> dict[str, str]:
    """Nested params under dotted names, as MLflow shows them."""
    found: dict[str, str] = {}
    for key, value in section.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            found |= flat(name, value)
        elif isinstance(value, list):
            found[name] = ", ".join(map(str, value))
        else:
            found[name] = "null" if value is None else str(value)
    return found


def _signed(value: float, form: str) -> str:
    text = format(value, form)
    if float(text) == 0:
        text = text.replace("-", "").replace("+", "")
    return text.replace("-", MINUS)
