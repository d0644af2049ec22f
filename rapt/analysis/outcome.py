"""The outcome of a tuned cell: what its models answered, and how sure the accuracy is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from rapt import paths
from rapt.analysis.intervals import of_accuracy
from rapt.results import predictions
from rapt.results.predictions import Predictions
from rapt.tuning.config import TrainConfig, Trained
from rapt.utils import files


@dataclass(frozen=True)
class Outcome:
    """Fields of a cell's JSON beside the metrics of the seeds.

    Attributes:
        counts: of the texts of each split.
        intervals: by metric; none of kind generate, which the stage `score` scores.
        baselines: by metric the score of a trivial answer.
    """

    counts: Mapping[str, int]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    baselines: Mapping[str, float] = field(default_factory=dict)


def write(path: Path, release: Path, train: TrainConfig, trained: Sequence[Trained]) -> Outcome:
    """Write what each seed's model answered to each text.

    Args:
        path: the file of predictions.
        release: folder of the release that the models were tuned on.
        train: how, to know which training rows are held out.
        trained: the models of all seeds.
    """
    statement = files.read_json(paths.statement(release))
    columns = ["example_id", *(["label"] if statement["labels"] else [])]
    rows = {
        split: files.read_parquet(paths.seed(release, 0) / f"{split}.parquet", columns)
        for split in ("train", "test")
    }
    counts = {split: len(of) for split, of in rows.items()}
    if statement["kind"] == "generate":
        predictions.write_texts(path, rows["test"], [one.written or [] for one in trained])
        return Outcome(counts)
    rows["train"] = rows["train"].filter(pa.array(train.holds_out(counts["train"])))
    predicted = {
        split: Predictions.of(rows[split], [one.logits[split] for one in trained])
        for split in trained[0].logits
    }
    predictions.write(path, predicted)
    test = predicted["test"]
    baselines = {"majority": test.majority}
    if statement["kind"] == "choose":
        baselines["chance"] = 1 / len(statement["labels"])
    return Outcome(counts, {"accuracy": of_accuracy(test.right)}, baselines)
