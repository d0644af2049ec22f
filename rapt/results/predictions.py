"""A cell's result of each text: its models' scores, or an attack's successes (docs/data.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

    def answers_as(self, other: Predictions) -> bool:
        """Whether both are about the same texts: after an interruption one may be of other rows."""
        same = list(self.examples) == list(other.examples)
        return same and np.array_equal(self.labels, other.labels)

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

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of its file, seed by seed."""
        seeds, _, classes = self.logits.shape
        logits = pa.FixedSizeListArray.from_arrays(self.logits.ravel(), classes)
        return {"label": np.tile(self.labels, seeds), "logits": logits}


@dataclass(frozen=True, eq=False)
class Successes:
    """How much of n texts an attack gets right in k seeds.

    Attributes:
        examples: their ids, n strings.
        counts: int64 (k, 2, n): how much is right, and of how much.
    """

    examples: Sequence[str]
    counts: NDArray[np.int64]

    def accuracy(self, texts: slice) -> float:
        """The share that is right of some texts, over all seeds."""
        right, counted = self.counts[..., texts].sum(axis=(0, 2))
        return float(right / max(1, counted))

    @property
    def right(self) -> NDArray[np.float64]:
        """The part of each text in each seed's share, (k, n), which is their mean.

        They vary as a ratio of sums does (Taylor linearization), so shares of the same texts can be
        compared as accuracies are.
        """
        right, counted = self.counts.swapaxes(0, 1)
        mean = np.maximum(counted.mean(axis=1, keepdims=True), 1e-9)
        share = right.mean(axis=1, keepdims=True) / mean
        return np.asarray(share + (right - share * counted) / mean)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of its file, seed by seed."""
        right, counted = self.counts.swapaxes(0, 1)
        return {"right": right.ravel(), "counted": counted.ravel()}


def write(path: Path, of: Mapping[str, Predictions | Successes]) -> None:
    """Write a row for each split or metric, seed and text.

    Args:
        path: the file.
        of: the predictions by split, or an attack's successes by metric. The predictions of `train`
            are for rows that were held out.
    """
    parts = []
    for name, one in of.items():
        seeds, texts = one.right.shape
        columns = {
            "split" if isinstance(one, Predictions) else "metric": [name] * (seeds * texts),
            "seed": np.repeat(np.arange(seeds), texts),
            "example_id": [*one.examples] * seeds,
            **one.columns,
        }
        parts.append(pa.table(columns))
    with files.atomic(path) as scratch:
        files.write_parquet(scratch, pa.concat_tables(parts))


def write_texts(path: Path, rows: pa.Table, written: Sequence[Sequence[str]]) -> None:
    """Write the texts that each seed's model wrote for rows with their ids."""
    columns = {
        "seed": np.repeat(np.arange(len(written)), len(rows)),
        "example_id": rows["example_id"].to_pylist() * len(written),
        "text": [text for texts in written for text in texts],
    }
    with files.atomic(path) as scratch:
        files.write_parquet(scratch, pa.table(columns))


def read_texts(path: Path) -> list[list[str]]:
    """Read the texts that `write_texts` wrote, by seed."""
    every = files.read_parquet(path)
    seeds = 1 + max(every["seed"].to_pylist())
    size = len(every) // seeds
    texts = every["text"].to_pylist()
    return [texts[k * size : (k + 1) * size] for k in range(seeds)]


def read(path: Path) -> dict[str, Predictions]:
    """Read the predictions that `write` wrote, by split; none of a file of texts."""
    return {
        split: Predictions.of(
            rows.slice(0, len(rows) // seeds),
            list(np.array(rows["logits"].to_pylist()).reshape(seeds, len(rows) // seeds, -1)),
        )
        for split, seeds, rows in _parts(path, "split")
    }


def read_successes(path: Path) -> dict[str, Successes]:
    """Read the successes that `write` wrote, by metric."""
    found = {}
    for metric, seeds, rows in _parts(path, "metric"):
        both = (rows[name].to_numpy().reshape(seeds, -1) for name in ("right", "counted"))
        counts = np.stack(list(both), axis=1)
        found[metric] = Successes(rows["example_id"][: counts.shape[2]].to_pylist(), counts)
    return found


def _parts(path: Path, column: str) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield each value of a column, with how many seeds it has and its rows."""
    every = files.read_parquet(path)
    for name in every[column].unique().to_pylist() if column in every.column_names else ():
        rows = every.filter(pc.equal(every[column], name)).combine_chunks()
        yield name, 1 + rows["seed"][-1].as_py(), rows
