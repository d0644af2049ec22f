"""Training of a seed of the tuner `tfidf`, without a backbone and without PyTorch."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from rapt import paths
from rapt.results.cells import SeedResult
from rapt.tuning import inference_spec
from rapt.tuning.config import Run, Trained
from rapt.tuning.tfidf import TfidfModel, of_pairs, segments
from rapt.utils import files


def train_seed(run: Run) -> Trained:
    """Fit to the words of the release's training split, write the model, score the test split.

    Raises:
        RaptError: the training rows are of one class, or a class has one row.
    """
    statement = files.read_json(paths.statement(run.release))
    data, columns = paths.seed(run.release, run.k), ["words", "segment", "label"]
    train, test = (files.read_parquet(data / f"{s}.parquet", columns) for s in ("train", "test"))
    pair = of_pairs(train["segment"].to_pylist())
    held_out = np.array(run.train.holds_out(len(train)))
    tuned = train.take(run.train.tunes_on(len(train), run.k))
    splits = {"tuned": tuned, "train": train.filter(held_out), "test": test}
    texts = {
        split: segments(
            rows["words"].to_pylist(), rows["segment"].to_pylist(), pair, run.train.max_tokens
        )
        for split, rows in splits.items()
        if len(rows)
    }
    with threadpool_limits(1):
        labels = splits["tuned"]["label"].to_pylist()
        where = f"{run.cell}, seed {run.k}"
        model = TfidfModel.fit(where, texts.pop("tuned"), labels, len(statement["labels"]))
        scores = {split: model.logits(given).astype(np.float32) for split, given in texts.items()}
    model.save(run.adapter)
    inference_spec.write(run, statement, len(tuned))
    right = scores["test"].argmax(axis=1) == test["label"].to_numpy()
    result = SeedResult(seed=run.k, metrics={"accuracy": float(right.mean())})
    return Trained(result, scores, "cpu", None)
