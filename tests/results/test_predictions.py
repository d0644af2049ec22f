"""Predictions as files, and the accuracy that they give."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rapt.analysis.intervals import difference, interval
from rapt.results import predictions
from rapt.results.predictions import Predictions, Successes

ROWS = pa.table({"example_id": ["a", "b", "c"], "label": [0, 1, 1], "words": [["secret"]] * 3})
# Right about the first two, about all, and about the last one, which no seed's model is sure of.
LOGITS = [
    np.array([[2.0, 1], [0, 1], [3, 1]], np.float32),
    np.array([[2.0, 1], [0, 1], [0, 1]], np.float32),
    np.array([[0.0, 1], [1, 0], [-np.inf, 0]], np.float32),
]


def test_what_is_written_is_read(empty: Path) -> None:
    path = empty / "train/cell.parquet"
    held_out = Predictions.of(ROWS.slice(1, 1), [of[:1] for of in LOGITS])
    predictions.write(path, {"train": held_out, "test": Predictions.of(ROWS, LOGITS)})
    found = predictions.read(path)
    assert found["train"].examples == ["b"]
    assert found["train"].logits.shape == (3, 1, 2)
    assert found["test"].examples == ["a", "b", "c"]
    assert found["test"].labels.tolist() == [0, 1, 1]
    assert np.array_equal(found["test"].logits, LOGITS)
    columns = ["split", "seed", "example_id", "label", "logits"]
    written = pa.parquet.read_table(path)
    assert written.column_names == columns
    assert written["seed"].to_pylist() == [0, 1, 2, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert written["example_id"].to_pylist() == ["b"] * 3 + ["a", "b", "c"] * 3


def test_successes_are_written_and_read_by_metric(tmp_path: Path) -> None:
    counts = np.arange(12).reshape(2, 2, 3)
    path = tmp_path / "invert/cell.parquet"
    some = Successes(["a"], counts[:1, :, :1])
    predictions.write(path, {"it": Successes(list("abc"), counts), "other": some})
    found = predictions.read_successes(path)
    assert found["it"].examples == list("abc") and found["other"].examples == ["a"]
    assert np.array_equal(found["it"].counts, counts)
    columns = ["metric", "seed", "example_id", "right", "counted"]
    assert pa.parquet.read_schema(path).names == columns


def test_parts_of_a_share_vary_as_the_share_does() -> None:
    """The interval of an accuracy, given the parts, is that of the ratio of sums."""
    rng = np.random.default_rng(0)
    counted = rng.integers(1, 9, (1, 200))
    right = rng.binomial(counted, 0.3)
    found = Successes([str(n) for n in range(200)], np.stack([right, counted], axis=1))
    share = found.accuracy(slice(None))
    assert found.right.mean() == pytest.approx(share)
    expected = interval(right[0], counted[0], np.array([share]))
    over = difference(found.right, np.zeros((1, 200)))
    assert over[1:] == pytest.approx(expected)


def test_accuracy_is_over_texts_of_each_seed() -> None:
    found = Predictions.of(ROWS, LOGITS)
    assert found.right.tolist() == [[True, True, False], [True] * 3, [False, False, True]]
    assert found.majority == pytest.approx(2 / 3)
    assert found.accuracies == pytest.approx([2 / 3, 1, 1 / 3])
