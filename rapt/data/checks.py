"""Further columns for the gate on raw data: the identity of a text, its words and tags."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from rapt.data.examples import COLUMNS, segments
from rapt.data.prepare import identity


def comparable(split: pa.Table, compared: Sequence[str]) -> pd.DataFrame:
    """Add to the rows of a split from data/raw what tells whether two texts are the same.

    Tasks whose words have tags get the number of both, `words_of_text` and `tags_of_text`.

    Args:
        split: the rows.
        compared: the columns that tell it (`Task.compared`).
    """
    frame = split.to_pandas().assign(identity=identities(split, compared))
    if "entities" in frame:
        frame["words_of_text"] = frame["text"].map(lambda text: len((text or "").split(" ")))
        frame["tags_of_text"] = frame["entities"].map(
            lambda tags: -1 if tags is None else len(tags)
        )
    return frame


def identities(table: pa.Table, compared: Sequence[str]) -> list[str]:
    """Return what two rows have in common if their texts are the same (`prepare.identity`)."""
    others = {name: pa.nulls(len(table)) for name in COLUMNS if name not in compared}
    texts = pa.table({name: others.get(name, table[name]) for name in COLUMNS})
    return list(map(identity, segments(texts)))
