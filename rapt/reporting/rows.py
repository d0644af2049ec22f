"""Rows of tables, computed once for the same results, and written as CSV by pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import SimpleNamespace
from typing import Any, TypeVar

import pandas as pd

from rapt.results.cells import Metric
from rapt.results.reader import Results

T = TypeVar("T")


class Row(SimpleNamespace):
    """A row: its columns and what is derived from them are attributes."""

    @classmethod
    def of(cls, columns: Iterable[str], **values: Any) -> Row:
        """Make a row with these columns, None where no value is given."""
        return cls(**dict.fromkeys(columns) | values)

    def but(self, **changes: Any) -> Row:
        """Return the row with other values."""
        return Row(**vars(self) | changes)


def once(compute: Callable[[Results], T]) -> Callable[[Results], T]:
    """Compute rows once for the same results, which hold them."""

    @wraps(compute)
    def computed(results: Results) -> T:
        held = vars(results).setdefault("rows", {})
        if compute not in held:
            held[compute] = compute(results)
        return held[compute]

    return computed


def frame(rows: Sequence[Row | Mapping[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    """Return columns of rows as a frame that keeps each value as it is."""
    records = [vars(row) if isinstance(row, Row) else row for row in rows]
    return pd.DataFrame(records, columns=list(columns), dtype=object)


def to_csv(table: pd.DataFrame) -> str:
    """Format a frame as CSV, with floats rounded to 6 places."""
    columns = {name: [_rounded(value) for value in table[name]] for name in table}
    return pd.DataFrame(columns, dtype=object).to_csv(index=False, lineterminator="\n")


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def parts(name: str, metric: Metric | None, *parts: str) -> dict[str, Any]:
    """Return a metric's mean under its name, and more of it under names like accuracy_sd."""
    more = {f"{name}_{part}": getattr(metric, part, None) for part in parts}
    return {name: mean(metric)} | more


def mean(metric: Metric | None) -> float | None:
    """Return a metric's mean; None: it has not run."""
    return metric.mean if metric else None
