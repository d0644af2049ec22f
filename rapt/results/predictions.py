"""The scores of a cell's models for each text that they were not fitted to (docs/data.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rapt.utils import files


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores of n texts by the models of k seeds.

    Attributes:
        examples: their ids, n strings.
        labels: int64 (n,), their classes.
        logits: float64 (k, n, classes).
    """

    examples: Sequence[str]
    labels: NDArray[np.int64]
    logits: NDArray[np.float64]

    @classmethod
    def of(cls, rows: pa.Table, logits: Sequence[NDArray[np.floating[Any]]]) -> Predictions:
        """Collect the scores of each seed, (n, classes), for rows with their ids and labels."""
        labels = rows["label"].to_numpy()
        return cls(rows["example_id"].to_pylist(), labels, np.array(logits, np.float64))

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether each seed's model is right about each text, (k, n)."""
        return self.logits.argmax(axis=2) == self.labels

    @property
    def accuracies(self) -> list[float]:
        """The accuracy of each seed's model."""
        return [float(share) for share in self.right.mean(axis=1)]

    @property
    def majority(self) -> float:
        """The accuracy of always answering the most frequent class."""
        return float(np.bincount(self.labels).max() / len(self.labels))


def write(path: Path, of: Mapping[str, Predictions]) -> None:
    """Write a row for each split, seed and text.

    Args:
        path: the file.
        of: the predictions by split. Those of `train` are for rows that were held out.
    """
    parts = []
    for split, one in of.items():
        seeds, texts, classes = one.logits.shape
        columns = {
            "split": [split] * (seeds * texts),
            "seed": np.repeat(np.arange(seeds), texts),
            "example_id": [*one.examples] * seeds,
            "label": np.tile(one.labels, seeds),
            "logits": pa.FixedSizeListArray.from_arrays(one.logits.ravel(), classes),
        }
        parts.append(pa.table(columns))
    with files.atomic(path) as scratch:
        files.write_parquet(scratch, pa.concat_tables(parts))


def read(path: Path) -> dict[str, Predictions]:
    """Read what `write` wrote."""
    every, found = files.read_parquet(path), {}
    for split in every["split"].unique().to_pylist():
        rows = every.filter(pc.equal(every["split"], split)).combine_chunks()
        seeds = 1 + rows["seed"][-1].as_py()
        first = rows.slice(0, len(rows) // seeds)
        logits = np.array(rows["logits"].to_pylist()).reshape(seeds, len(first), -1)
        found[split] = Predictions.of(first, list(logits))
    return found
