"""The outcome of a tuned cell: what its models answered, and how sure the metrics are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rapt import paths
from rapt.kinds.base import Kind
from rapt.tuning.config import TrainConfig, Trained
from rapt.utils import files


@dataclass(frozen=True)
class Outcome:
    """Fields of a cell's JSON beside the metrics of the seeds.

    Attributes:
        counts: of the texts of each split.
        intervals: by metric.
        baselines: by metric the score of a trivial answer.
    """

    counts: Mapping[str, int]
    intervals: Mapping[str, tuple[float, float]]
    baselines: Mapping[str, float]


def write(
    kind: Kind, path: Path, release: Path, train: TrainConfig, trained: Sequence[Trained]
) -> Outcome:
    """Write what each seed's model answered to each text.

    Args:
        kind: of the task.
        path: the file of predictions.
        release: folder of the release that the models were tuned on.
        train: how, to know which training rows are held out.
        trained: the models of all seeds.
    """
    columns = ["example_id", *([kind.target] if kind.target else [])]
    train_rows, test = (
        files.read_parquet(paths.seed(release, 0) / f"{split}.parquet", columns)
        for split in ("train", "test")
    )
    held_out = np.array(train.holds_out(len(train_rows)))
    rows = {
        "tuned": train_rows.filter(~held_out),
        "train": train_rows.filter(held_out),
        "test": test,
    }
    answers = kind.write(path, rows, [one.answers for one in trained])
    return Outcome({"train": len(train_rows), "test": len(test)}, *answers)
