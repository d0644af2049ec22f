"""Flags on the rows of raw data, for the checks of the gate that need more than one column."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from rapt.data.examples import segments
from rapt.data.prepare import identity


def flags(split: pa.Table, evaluation: pa.Table | None) -> pd.DataFrame:
    """Add flags to the rows of a split from data/raw.

    `is_new` says that the text is not in the evaluation split; None: `split` is that split.
    `is_tagged` says that each word has a tag, if words have any.
    """
    frame = split.to_pandas()
    if evaluation is not None:
        known = set(_identities(evaluation))
        frame["is_new"] = [key not in known for key in _identities(split)]
    if "entities" in frame:
        frame["is_tagged"] = list(map(_is_tagged, frame["text"], frame["entities"]))
    return frame


def _is_tagged(text: str | None, tags: Sequence[str] | None) -> bool:
    return text is not None and tags is not None and len(text.split(" ")) == len(tags)


def _identities(table: pa.Table) -> list[str]:
    if "references" in table.column_names:  # what was written is no part of it
        return [identity([text]) for text in table["text"].to_pylist()]
    return list(map(identity, segments(table)))
