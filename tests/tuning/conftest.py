"""A tiny random BERT and a release for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from rapt.kinds.classify import Classify
from rapt.tuning import parallel
from rapt.tuning.config import Precision, Reconstruction, Run, TrainConfig
from rapt.tuning.inputs import Split, read_split
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import Classifier, adapt, load, load_backbone
from rapt.tuning.scoring import logits
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Lora
from rapt.utils import files
from tests import tiny
from tests.tuning.tokenizers import of_words

WORDS = ["good", "bad", "film", "plot", "very", "so", "un", "##like", "##ly", "likely"]
# Two sequences of plain words, one with a word of three tokens, and their places in V_r.
PLAIN = [["likely", "film", "unlikely"], ["plot", "very", "so"]]
TARGETS = [[6, 0, 3], [1, 4, 5]]
STATEMENT = {
    "task": "films",
    "method": "rapt",
    "mechanism": "pct2t",
    "parameters": {},
    "categories": ["noun", "verb"],
    "eta": "75",
    "embedding": "tiny",
    "table_sha256": "0" * 64,
    "metric": "Euclidean distance of word embeddings",
    "protection": "d_X-privacy",
    "guarantee": "P[M(w)=y] <= …",
    "not_covered": ["The tags."],
    "kind": "classify",
    "protect": "words",
    "labels": ["no", "yes"],
    "vocabulary": 7,
    "plain_tokens": {"length": 3, "sequences": 2, "choice": "uniform"},
    "documents": 144,
}


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    return tiny.bert(folder, of_words(words))


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """96 training and 48 test texts: the class is whether "good" or "bad" is in it."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "statement.json").write_text(json.dumps(STATEMENT))
    rng = np.random.default_rng(0)
    for k in range(2):
        for split, n in (("train", 96), ("test", 48)):
            labels = rng.integers(2, size=n)
            words = [
                [*rng.choice(["film", "plot", "very", "so"], 3), ("bad", "good")[label]]
                for label in labels
            ]
            sequences = rng.integers(2, size=n)
            table = {
                "example_id": [f"{split}-{i:06d}" for i in range(n)],
                "words": words,
                "segment": [[0] * 4] * n,
                "label": labels,
                "sequence": sequences,
                "plain": [list(rng.permutation(PLAIN[sequence])) for sequence in sequences],
            }
            files.write_parquet(folder / f"seed-{k}" / f"{split}.parquet", pa.table(table))
        plain = {
            "sequence": [0, 0, 0, 1, 1, 1],
            "word": [word for sequence in PLAIN for word in sequence],
            "target": [target for sequence in TARGETS for target in sequence],
        }
        files.write_parquet(folder / f"seed-{k}" / "plain.parquet", pa.table(plain))
    return folder


def write_release(folder: Path, splits: dict[str, dict[str, Any]], **statement: Any) -> Path:
    """Write a release of one seed with one sequence of plain words, which texts have in turn."""
    (folder / "statement.json").write_text(json.dumps(STATEMENT | statement))
    for split, columns in splits.items():
        n = len(columns["words"])
        ids = [f"{split}-{i:06d}" for i in range(n)]
        table = {"example_id": ids, "plain": [PLAIN[0]] * n, **columns}
        files.write_parquet(folder / "seed-0" / f"{split}.parquet", pa.table(table))
    plain = {"sequence": [0] * 3, "word": PLAIN[0], "target": TARGETS[0]}
    files.write_parquet(folder / "seed-0/plain.parquet", pa.table(plain))
    return folder


class InThisProcess(nullcontext[Any]):
    """An executor for `train_cell` that starts no process."""

    def __enter__(self) -> InThisProcess:
        return self

    def map(self, function: Callable[..., Any], *of: Iterable[Any]) -> Iterator[Any]:
        return map(function, *of)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train seeds here, as a process takes seconds to start: tests of `parallel` start them."""
    monkeypatch.setattr(parallel, "ProcessPoolExecutor", lambda *_: InThisProcess())


@pytest.fixture
def run(backbone: Path, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("RAPT_HOME", str(tmp_path / "home"))  # where checkpoints lie
    return Run(
        cell="movies-tiny",
        release=release,
        k=0,
        seed=0,
        backbone=backbone,
        backbone_name="tiny",
        tuner=Lora(r=4, alpha=8, dropout=0.0, learning_rate=0.02),
        reconstruction=Reconstruction(head_size=8),
        train=TrainConfig(epochs=3, batch_size=8, max_tokens=16),
        adapter=tmp_path / "adapter",
        kind=Classify(("no", "yes")),
    )


def texts(run: Run, split: str = "train") -> Split:
    """A split of the run's release, as its model reads it."""
    path = run.release / f"seed-0/{split}.parquet"
    return read_split(path, load_tokenizer(run.backbone), run.train.max_tokens)


def pad_of(run: Run) -> int:
    pad: int = load_tokenizer(run.backbone).pad_token_id
    return pad


def trainer_of(run: Run) -> Trainer:
    """The trainer of two classes, before its first step."""
    torch.manual_seed(0)
    backbone, _ = load_backbone(run.backbone, run.quantize, run.frozen)
    model = Classifier(adapt(backbone, run.tuner), 2, run.train.precision)
    return Trainer(run, model, pad_of(run))


def reread(run: Run, precision: Precision = "float32", rows: int = 7) -> float:
    """The accuracy of a run's adapter on its test split, as it is loaded from its folder."""
    model, pad = load(run.adapter, run.backbone, precision=precision), pad_of(run)
    split = texts(run, "test")
    predicted = logits(model, split, pad, rows).argmax(1)
    return (predicted == torch.tensor(split.labels)).double().mean().item()
