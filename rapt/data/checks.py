"""Further columns for the gate on raw data: the identity of a text, its words and tags."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from rapt.data.examples import segments
from rapt.data.prepare import identity


def comparable(split: pa.Table) -> pd.DataFrame:
    """Add to the rows of a split from data/raw what tells whether two texts are the same.

    Tasks whose words have tags get the number of both, `words_of_text` and `tags_of_text`.
    """
    frame = split.to_pandas().assign(identity=identities(split))
    if "entities" in frame:
        frame["words_of_text"] = frame["text"].map(lambda text: len((text or "").split(" ")))
        frame["tags_of_text"] = frame["entities"].map(
            lambda tags: -1 if tags is None else len(tags)
        )
    return frame


def identities(table: pa.Table) -> list[str]:
    """Return what two rows have in common if their texts are the same (`prepare.identity`)."""
    if "references" in table.column_names:  # what was written is no part of it
        return [identity([text]) for text in table["text"].to_pylist()]
    return list(map(identity, segments(table)))
