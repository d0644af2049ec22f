"""Sources, and the texts that were written of them: the rows of kind generate."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rapt.data import read, sources, triples
from rapt.data.config import Task
from rapt.utils.errors import RaptError


def columns(split: sources.Split, task: Task, key: str) -> dict[str, list[Any]]:
    """Return the sources of a split, the texts that were written of each, and the groups.

    Raises:
        RaptError: a column is missing, or a row has something else.
    """
    given = read.column(split.columns, task.text, f"{key}.text", split.where)
    texts = [_text(value) for value in given]
    assert task.references
    where = f"{key}.references"
    of_each = read.column(split.columns, task.references, where, split.where)
    written = [list(each) if _is_texts(each) else [] for each in of_each]
    names: list[str | None] = [None] * len(texts)
    if task.group:
        groups = read.column(split.columns, task.group, f"{key}.group", split.where)
        names = [_group(task.group, value) for value in groups]
    checks = {
        "text": ([text is None for text in texts], "a text, or a list of triples"),
        "references": ([not each for each in written], "a list of one text or more"),
    }
    if task.protect == "entities":
        unparted = [not triples.are_in(text) for text in texts]
        checks["protect"] = (unparted, "SUBJECT | PREDICATE | OBJECT in each")
    for name, (wrong, expected) in checks.items():
        if bad := sum(wrong):
            raise RaptError(
                f"{split.where}: {key}.{name}: got something else in {bad} of {len(texts)} rows, "
                f"expected {expected}. Correct them."
            )
    return {"text": texts, "references": written, "group": names}


def examples(frame: pd.DataFrame, split: str) -> pd.DataFrame:
    """Return a training row for each text that was written; of the test split, one a source."""
    if split == "test":
        return frame
    return frame.assign(text_pair=frame["references"]).explode("text_pair")


def _group(column: str, value: Any) -> str | None:
    """Name the group of a row; of a column of truth values by the column."""
    if isinstance(value, bool):
        return column if value else f"not-{column}"
    return None if value is None else str(value)


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return triples.source(value) if _is_texts(value) else None


def _is_texts(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(text, str) and text.strip() for text in value)
    )
