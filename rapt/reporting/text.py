"""Format of numbers and names in the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rapt.param_types import level

MINUS = "\N{MINUS SIGN}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
NBSP = "\N{NO-BREAK SPACE}"


def percent(share: float | None, sd: float | None = None) -> str:
    """Format a share in percent, to one place, with its standard deviation if given."""
    if share is None:
        return "–"
    spread = f"{NBSP}{PLUS_MINUS}{NBSP}{100 * sd:.1f}" if sd is not None else ""
    return f"{_signed(100 * share, '.1f')}{spread}"


def span(shares: Iterable[float | None]) -> str:
    """Format the least and the greatest of some shares in percent; one number if equal."""
    known = sorted(share for share in shares if share is not None)
    return " to ".join(dict.fromkeys(percent(share) for share in (known[:1] + known[-1:]))) or "–"


def points(difference: float) -> str:
    """Format a difference of two shares in percentage points, with its sign."""
    return _signed(100 * difference, "+.1f")


def number(value: float | None, sign: str = "") -> str:
    """Format a number in its own unit, to one place, with a sign if requested."""
    return "–" if value is None else _signed(value, f"{sign}.1f")


def eta_text(eta: str) -> str:
    """Format η for a sentence."""
    if given := level(eta):
        most = "" if given.measure == "replaced" else "at most "
        return f"{most}{given.share:.0%} {given.measure}"
    return f"η{NBSP}={NBSP}{eta}"


def at_eta(eta: str) -> str:
    """Format η for a sentence, after the name of a method."""
    return f"({eta_text(eta)})" if level(eta) else f"at {eta_text(eta)}"


def eta_number(eta: float | None) -> str:
    """Format a computed η, to three digits or more; None: no η is too large."""
    if eta is None:
        return "∞"
    return f"{eta:.1f}" if eta >= 10 else f"{eta:.3g}"


def group_text(group: Sequence[str]) -> str:
    """Format the name of a group of cells."""
    return " · ".join(group)


def labels_text(labels: float | None, fewest: float | None, most: float | None) -> str:
    """Format a number of labels: `below 25`, `65` or `above 400`; a dash: none were tried."""
    if fewest is None or most is None:
        return "–"
    if labels is None:
        return f"above {most:,.0f}"
    return f"{float(f'{labels:.2g}'):,.0f}" if labels else f"below {fewest:g}"


def training_text(clean: Any) -> str:
    """Say of the row of a model on clean text what protects the texts that it was tuned on."""
    if clean is None or clean.training_epsilon is None:
        return "unprotected"
    return f"trained privately, ε = {clean.training_epsilon:.3g} per {clean.training_unit}"


def attack_text(attack: str, task: str, target: str) -> str:
    """Name an attack by its task and its target: words, entities, attribute or membership."""
    return f"{attack} on {task}: {target}"


def listing(items: Sequence[str]) -> str:
    """Join items as `a`, `a and b`, or `a, b and c`."""
    *head, last = items or ["nothing"]
    return f"{', '.join(head)} and {last}" if head else last


def unproven(doubt: str | None) -> str:
    """Return the remark at the end of a figure's caption on an unproven attack."""
    return " Unproven: the attack has no cell on clean text." if doubt == "unproven" else ""


def count(number: int, noun: str) -> str:
    """Format a count with its noun: `1 cell`, `2 cells`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def flat(prefix: str, section: Mapping[str, Any]) -> dict[str, str]:
    """Flatten nested params to dotted names, as MLflow shows them."""
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
