"""Shared by all figures: the looks of their series, rounded values, parts of file names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rapt.reporting.charts import Look, look
from rapt.results.reader import Results


def at_eta(series: str, eta: str) -> dict[str, Any]:
    """Return the series of a point, and its η for a tooltip."""
    return {"series": series, "at": f"η {eta}"}


def rounded(value: float) -> float:
    """Drop digits that no figure shows."""
    return float(f"{value:.6g}")


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each series, in their order."""
    return {name: look(number) for number, name in enumerate(names)}


def looks_of_methods(results: Results, names: Iterable[str]) -> dict[str, Look]:
    """Return the looks of mechanisms or methods, which are the same in every figure."""
    known = list(dict.fromkeys([*results.params.sweep.methods, *sorted(results.params.methods)]))
    numbers = {name: known.index(name) if name in known else len(known) for name in names}
    return {name: look(number) for name, number in sorted(numbers.items(), key=lambda i: i[1])}


def slug(text: str) -> str:
    """Turn a text into a part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("_", "-")).strip("-")
