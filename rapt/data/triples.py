"""Sources of kind generate: triples as one line of text, and the texts that were written of them.

A triple is SUBJECT | PREDICATE | OBJECT, as WebNLG (Gardent et al., 2017) has it. Those of a source
are joined by && (Li and Liang, 2021), underscores are spaces, and double quotes are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rapt.data import read, sources
from rapt.data.config import Task
from rapt.utils.errors import RaptError

WITHIN, BETWEEN = " | ", " && "


def source(triples: Sequence[str]) -> str:
    """Return the triples of a source as one line."""
    return BETWEEN.join(triple.replace("_", " ").replace('"', "") for triple in triples)


def words_alone(source: str) -> str:
    """Return a source without what parts its triples: the text of who copies it."""
    return source.replace(BETWEEN, " ").replace(WITHIN, " ")


def entities(source: str) -> list[str]:
    """Return the distinct subjects and objects of a source; none of a text without triples."""
    triples = [triple.split(WITHIN) for triple in source.split(BETWEEN)]
    return list(dict.fromkeys(part for parts in triples if len(parts) == 3 for part in parts[::2]))


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
    for name, wrong, expected in (
        ("text", [text is None for text in texts], "a text, or a list of triples"),
        ("references", [not each for each in written], "a list of one text or more"),
        ("protect", [not _parted(text) for text in texts], "SUBJECT | PREDICATE | OBJECT in each"),
    ):
        if name == "protect" and task.protect != "entities":
            continue
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
    return source(value) if _is_texts(value) else None


def _is_texts(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(text, str) and text.strip() for text in value)
    )


def _parted(text: str | None) -> bool:
    return text is not None and all(
        len(triple.split(WITHIN)) == 3 for triple in text.split(BETWEEN)
    )
