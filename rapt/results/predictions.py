"""The scores of a cell's models for each text of the test split (docs/data.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt.analysis import intervals
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
    def of(cls, rows: pa.Table, logits: Sequence[NDArray[np.floating]]) -> Predictions:
        """Collect the scores of each seed, (n, classes), for rows with their ids and labels."""
        labels = rows["label"].to_numpy()
        return cls(rows["example_id"].to_pylist(), labels, np.array(logits, np.float64))

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether each seed's model is right about each text, (k, n)."""
        return self.logits.argmax(axis=2) == self.labels

    @property
    def majority(self) -> float:
        """The accuracy of always answering the most frequent class."""
        return float(np.bincount(self.labels).max() / len(self.labels))

    def interval(self) -> tuple[float, float]:
        """Return the accuracy's 95 % confidence interval, over texts and seeds."""
        right = self.right
        counted = np.full(right.shape[1], len(right))
        return intervals.interval(right.sum(axis=0), counted, right.mean(axis=1))

    def write(self, path: Path) -> None:
        """Write a row for each seed and text."""
        seeds, texts, classes = self.logits.shape
        columns = {
            "seed": np.repeat(np.arange(seeds), texts),
            "example_id": [*self.examples] * seeds,
            "label": np.tile(self.labels, seeds),
            "logits": pa.FixedSizeListArray.from_arrays(self.logits.ravel(), classes),
        }
        with files.atomic(path) as scratch:
            files.write_parquet(scratch, pa.table(columns))

    @classmethod
    def read(cls, path: Path) -> Predictions:
        """Read what `write` wrote."""
        rows = files.read_parquet(path)
        logits = rows["logits"].combine_chunks()
        seeds = 1 + rows["seed"][-1].as_py()
        first = rows.slice(0, len(rows) // seeds)
        shape = seeds, len(first), logits.type.list_size
        return cls.of(first, logits.flatten().to_numpy().reshape(shape))
