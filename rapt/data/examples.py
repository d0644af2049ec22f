"""The texts of an example of data/raw: one, the two of a pair, or a question and its choices.

Of kind generate the two are a source and a text that was written from it. Test rows have the source
alone: what was written for them stays in the column `references`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

COLUMNS = ["text", "text_pair", "choices"]


def segments_of(
    text: str | None, text_pair: str | None, choices: Sequence[str] | None
) -> list[str]:
    """Return the texts of an example in order; its segments (docs/data.md) are numbered so."""
    second = [] if text_pair is None else [text_pair]
    return [text or "", *second, *(choices or [])]


def segments(raw: pa.Table) -> Iterator[list[str]]:
    """Yield the texts of each example of a table with COLUMNS."""
    return map(segments_of, *(raw[name].to_pylist() for name in COLUMNS))
