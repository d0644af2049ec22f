"""Predictions as files, and the accuracy that they give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rapt.results import predictions
from rapt.results.predictions import Predictions

ROWS = pa.table({"example_id": ["a", "b", "c"], "label": [0, 1, 1], "words": [["secret"]] * 3})
# Right about the first two, about all, and about the last one, which no seed's model is sure of.
LOGITS = [
    np.array([[2.0, 1], [0, 1], [3, 1]], np.float32),
    np.array([[2.0, 1], [0, 1], [0, 1]], np.float32),
    np.array([[0.0, 1], [1, 0], [-np.inf, 0]], np.float32),
]


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train/cell.parquet"
    held_out = Predictions.of(ROWS.slice(1, 1), [of[:1] for of in LOGITS])
    predictions.write(path, {"train": held_out, "test": Predictions.of(ROWS, LOGITS)})
    found = predictions.read(path)
    assert found["train"].examples == ["b"]
    assert found["train"].logits.shape == (3, 1, 2)
    assert found["test"].examples == ["a", "b", "c"]
    assert found["test"].labels.tolist() == [0, 1, 1]
    assert np.array_equal(found["test"].logits, LOGITS)
    columns = ["split", "seed", "example_id", "label", "logits"]
    assert pa.parquet.read_schema(path).names == columns


def test_accuracy_is_over_texts_of_each_seed() -> None:
    found = Predictions.of(ROWS, LOGITS)
    assert found.right.tolist() == [[True, True, False], [True] * 3, [False, False, True]]
    assert found.majority == pytest.approx(2 / 3)
    assert found.accuracies == pytest.approx([2 / 3, 1, 1 / 3])
