"""What CAPE's adversary hides, and from whom: `python -m evidence.adversary TRAIN TEST`.

TRAIN and TEST are HappyDB's parquet files (`moment`, `social`, `gender`, `age`), which rapt does
not fetch. evidence/one-vector.md says what follows.

CAPE (Plant et al., 2021) adds noise to one vector for a text. Layers after the noise learn the
task, and by a reversed gradient of weight λ they learn to forget an attribute of the author.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from evidence.one_vector import released
from rapt.data.attributes import number
from rapt.paths import MINILM
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.mechanisms.encoders import FramedText
from rapt.privacy.streams import stream
from rapt.table_cache import cached_table
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.progress import bar

OUT = Path("evidence/adversary.json")
ROWS = {"train": 4000, "test": 4000}
ETAS, LAMBDAS, SEEDS = (np.inf, 1000.0, 100.0), (0.0, 0.5, 1.5, 5.0), 3
# Those of the authors' code.
WIDTH, DROPOUT, RATE, BATCH, EPOCHS, AGES = 256, 0.4, 1e-3, 64, 20, 6


class Split(NamedTuple):
    """A split's released vectors, float32 (n, d), and what they are to tell, int64 (n,)."""

    vectors: Tensor
    task: Tensor
    private: Tensor


class Reversed(torch.autograd.Function):
    """The identity, whose gradient is that of the opposite, λ times (Ganin et al., 2016)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: float) -> Tensor:
        """Return the inputs."""
        ctx.weight = weight
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Turn the gradient round."""
        return -ctx.weight * gradients[0], None


class Layers(nn.Module):
    """Layers that read a vector, with a head for the task and one for the attribute."""

    def __init__(self, dimension: int, classes: int, private: int) -> None:
        """Make them at random."""
        super().__init__()
        parts: list[nn.Module] = []
        for width in (dimension, WIDTH):
            parts += [nn.Linear(width, WIDTH), nn.ReLU(), nn.Dropout(DROPOUT)]
        self.body = nn.Sequential(*parts)
        self.task, self.private = nn.Linear(WIDTH, classes), nn.Linear(WIDTH, private)


def trained(train: Split, weight: float, seed: int) -> Layers:
    """Train on the task, against an adversary of this weight."""
    torch.manual_seed(seed)
    classes, private = (int(part.max()) + 1 for part in (train.task, train.private))
    layers = Layers(train.vectors.shape[1], classes, private)
    optimizer, loss = torch.optim.Adam(layers.parameters(), RATE), nn.functional.cross_entropy
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(train.task)).split(BATCH):
            hidden = layers.body(train.vectors[rows])
            told = layers.private(Reversed.apply(hidden, weight))
            total = loss(layers.task(hidden), train.task[rows]) + loss(told, train.private[rows])
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
    return layers.eval()


def share(logits: Tensor, right: Tensor) -> float:
    """The share of rows that are right."""
    return float((logits.argmax(1) == right).double().mean())


def attacked(train: Split, test: Split, read: Callable[[Tensor], Tensor], seed: int) -> float:
    """The accuracy of a fresh attacker who learns the attribute from what is read."""
    own, other = (part._replace(vectors=read(part.vectors)) for part in (train, test))
    # However small the layers have made what they were to forget.
    middle, size = own.vectors.mean(0), own.vectors.std(0)
    size = torch.where(size > 0, size, 1.0)
    own, other = (part._replace(vectors=(part.vectors - middle) / size) for part in (own, other))
    layers = trained(own._replace(task=own.private), 0.0, seed)
    return share(layers.task(layers.body(other.vectors)), other.private)


def cell(train: Split, test: Split, weight: float, seed: int) -> dict[str, float]:
    """What one training at one λ reaches, and what can be told from it."""
    layers = trained(train, weight, seed)
    with torch.inference_mode():
        hidden = layers.body(test.vectors)
        found = {
            "task": share(layers.task(hidden), test.task),
            "adversary": share(layers.private(hidden), test.private),
        }

    def body(vectors: Tensor) -> Tensor:
        with torch.no_grad():
            return layers.body(vectors)

    found["hidden"] = attacked(train, test, body, seed)
    return found


def read(name: str, rows: int) -> tuple[list[list[str]], dict[str, NDArray[np.int64]]]:
    """Read so many texts of a file, drawn with a fixed seed, and what they are to tell."""
    frame = files.read_parquet(Path(name)).to_pandas()
    frame["age"] = [number(value) or 0 for value in frame["age"]]
    frame = frame[frame["gender"].isin(["f", "m"]) & frame["age"].between(10, 99)]
    frame = frame.iloc[stream(0, "rows").permutation(len(frame))[:rows]]
    told = {"social": frame["social"] == "yes", "gender": frame["gender"] == "f"}
    numbers = {key: column.to_numpy(np.int64) for key, column in told.items()}
    return [text.split() for text in frame["moment"]], numbers | {"age": frame["age"].to_numpy()}


def main(train: str, test: str) -> None:
    """Write the figures."""
    made = mechanism("cape", encoder=MINILM)
    assert isinstance(made, FramedText)
    table = EmbeddingTable(cached_table())
    with threadpool_limits(1):
        raw = {}
        for split, name in (("train", train), ("test", test)):
            texts, told = read(name, ROWS[split])
            raw[split] = np.asarray(made.encode(texts, table), np.float64), told
        limits = np.quantile(raw["train"][1]["age"], np.arange(1, AGES) / AGES)
        for _, told in raw.values():
            told["age"] = np.searchsorted(limits, told["age"])
        cells: dict[str, Any] = {}
        every = [*product(("gender", "age"), ETAS, range(SEEDS))]
        for private, eta, seed in bar(every, "cells", len(every)):
            noisy = {s: released(made, vectors, eta, seed, s) for s, (vectors, _) in raw.items()}
            centre, scale = noisy["train"].mean(axis=0), noisy["train"].std()
            own, other = (
                Split(
                    torch.tensor((noisy[s] - centre) / scale, dtype=torch.float32),
                    torch.tensor(raw[s][1]["social"]),
                    torch.tensor(raw[s][1][private]),
                )
                for s in ("train", "test")
            )
            at = cells.setdefault(private, {}).setdefault(f"{eta:g}", {})
            at.setdefault("release", []).append(attacked(own, other, lambda x: x, seed))
            for weight in LAMBDAS:
                for key, value in cell(own, other, weight, seed).items():
                    at.setdefault(f"{weight:g}", {}).setdefault(key, []).append(value)
        test_told = raw["test"][1]
    files.write_json(
        OUT,
        {
            "rows": {split: len(told["social"]) for split, (_, told) in raw.items()},
            "majority": {
                name: float(np.bincount(test_told[name]).max() / len(test_told[name]))
                for name in ("social", "gender", "age")
            },
            "cells": averaged(cells),
        },
    )


def averaged(found: Any) -> Any:
    """The mean of each list of seeds."""
    if isinstance(found, list):
        return float(np.mean(found))
    return {key: averaged(value) for key, value in found.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
