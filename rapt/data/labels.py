"""Labels of a task: the class of each row, by its name, its number or a rating."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from rapt.data import read
from rapt.data.config import Label
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.data.prepare import Remaining


def parse(rows: Remaining, label: Label, key: str) -> None:
    """Turn the column `label` into class numbers, and drop rows equal to the threshold.

    Raises:
        RaptError: a row has no class, or no number where there is a threshold.
    """
    values = rows.frame["label"].map(partial(_class, label))
    if label.threshold is not None:
        ratings = values.map(number).astype(float)  # None becomes NaN
        if bad := int(ratings.isna().sum()):
            raise RaptError(
                f"{key}.column: got no number in {bad} of {len(values)} rows, expected one in "
                "each. Correct them, or leave such rows out with exclude."
            )
        rows.frame = rows.frame.assign(label=(ratings > label.threshold).astype("int64"))
        rows.drop(ratings == label.threshold, "rating equal to the threshold")
        return
    names = [_class(label, name) or name for name in label.names]
    lacking = values.map(read.is_missing) & ~values.isin(names)
    if bad_rows := rows.frame["row"][lacking].to_list():
        raise RaptError(
            f"{key}.column: got no class in {len(bad_rows)} of {len(values)} rows (of the file's, "
            f"{', '.join(map(str, bad_rows[:5]))}{', …' if len(bad_rows) > 5 else ''}), expected "
            "one in each. Fill them in, or delete these rows."
        )
    rows.frame = rows.frame.assign(label=_classes(values, names, key))


def _classes(values: pd.Series, names: list[str], key: str) -> pd.Series:
    """Return class numbers, from names if any value is a name, else from numbers."""
    classes: dict[str, float] = {name: number for number, name in enumerate(names)}
    distinct = set(values)
    if not distinct & set(classes):
        numbers = {value: number(value) for value in distinct}
        classes = {v: n for v, n in numbers.items() if n is not None and n in range(len(names))}
    if unknown := distinct - set(classes):
        raise RaptError(
            f"{key}.column: got {min(map(_shown, unknown))} in {values.isin(unknown).sum()} of "
            f"{len(values)} rows, expected {', '.join(names)} or, in all rows, 0 to "
            f"{len(names) - 1}. Name all classes in label.names, or leave such rows out with "
            "exclude."
        )
    return values.map(classes).astype("int64")


def _class(label: Label, value: str | None) -> str | None:
    value = stripped(value)
    return value.casefold() if value and label.fold_case else value


def stripped(value: str | None) -> str | None:
    """Return a value without white space around it."""
    return value and value.strip()


def number(value: str | None) -> float | None:
    """Return a finite number; None: it is none."""
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: str | None) -> str:
    """Format a label for an error: only numbers, as a wrong column may hold names or text."""
    return repr(value) if number(value) is not None else "a value not shown"
