"""What one noisy vector a text is good for: `python -m evidence.one_vector TRAIN TEST`.

TRAIN and TEST are SST-2's parquet files (`sentence`, `label`), which rapt does not fetch.
evidence/one-vector.md says what follows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from rapt.paths import MINILM
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.mechanisms.encoders import FramedText, frame
from rapt.privacy.mechanisms.sphere import unit
from rapt.privacy.streams import stream
from rapt.table_cache import cached_table
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.progress import bar

Numbers = NDArray[np.float64]

OUT = Path("evidence/one_vector.json")
ROWS, DRAWS, EPOCHS = 2500, 3, 20
DIMENSIONS = (16, 64, 384)
# Mechanisms, and the η at which each is read.
SWEEP: dict[str, tuple[float, ...]] = {
    "purkayastha": (10, 50, 100, 384, 1000),
    "vmf": (100, 384, 1000),
    "sphere-noise": (10, 50, 100, 384),
    "gaussian": (1, 8, 50, 250),
    "federate": (14, 100, 1000),
    "federate-as-coded": (6, 14),
    "cape-as-written": (0.01, 1, 5, 50),
    "cape-as-coded": (0.01, 1, 5, 50),
    "dpnr-as-coded": (0.01, 1, 5, 50),
    "ome": (10, 550, 1100, 3797),
    "ome-as-written": (10,),
}
# What lifts the papers' figures, for a system each at the η that it is used with.
LIFTED = {"purkayastha": (16, 10.0), "gaussian": (384, 8.0), "federate": (384, 14.0)}
LIFTS = ("trained projection", "redrawn noise", "none at inference", "half the sensitivity")
# Shares of the words that DPNR leaves out, at an ε and, last, without noise.
LEFT_OUT, LEFT_OUT_AT = (0.1, 0.3, 0.5, 0.7, 0.9), (1000.0, 1e9)
STEPS, RATE, WIDTH = 300, 0.01, 16  # of the projection that learns from raw text


class Data(NamedTuple):
    """Encoded texts and their labels."""

    train: Numbers
    labels: NDArray[np.int64]
    test: Numbers
    right: NDArray[np.int64]


def read(name: str, count: int | None = None) -> tuple[list[list[str]], NDArray[np.int64]]:
    """Read the words and labels of a file, all or so many of its rows, drawn with a fixed seed."""
    table = files.read_parquet(name)
    rows = np.arange(len(table)) if count is None else stream(0, "rows").permutation(len(table))
    chosen = table.take(rows[:count])
    return [text.split() for text in chosen["sentence"].to_pylist()], np.array(chosen["label"])


def accuracy(data: Data) -> float:
    """The accuracy of logistic regression, trained and asked on what was released."""
    middle = data.train.mean(axis=0)
    scale = (data.train - middle).std() or 1.0
    model = LogisticRegression(C=1.0, max_iter=2000).fit((data.train - middle) / scale, data.labels)
    return float(model.score((data.test - middle) / scale, data.right))


def released(made: FramedText, vectors: Numbers, eta: float, *names: str | int) -> Numbers:
    """Release each vector once, and read it as a provider who knows the mechanism would."""
    draws = made.draw(stream(0, made.name, *names), *vectors.shape)
    noisy = made.represent(vectors, draws, eta)
    return noisy - noisy.min(axis=1, keepdims=True) if made.name == "dpnr-as-coded" else noisy


def cells(raw: Data, table: EmbeddingTable) -> dict[str, Any]:
    """The accuracy by dimensions, mechanism and η."""
    found: dict[str, Any] = {}
    every = [*product(DIMENSIONS, SWEEP)]
    for dimensions, name in bar(every, "sweep", len(every)):
        made = mechanism(name, encoder=MINILM, dimensions=dimensions)
        assert isinstance(made, FramedText)
        train, test = (made.shaped(part, table) for part in (raw.train, raw.test))
        for eta in (np.inf, *SWEEP[name]):
            of_draws = [
                accuracy(
                    raw._replace(
                        train=released(made, train, eta, draw, "train"),
                        test=released(made, test, eta, draw, "test"),
                    )
                )
                for draw in range(DRAWS if np.isfinite(eta) else 1)
            ]
            of_name = found.setdefault(str(dimensions), {}).setdefault(name, {})
            of_name[f"{eta:g}"] = float(np.mean(of_draws))
    return found


def projected(raw: Data, dimensions: int) -> Data:
    """Project to so many dimensions by a map that learns from raw text and its labels."""
    torch.manual_seed(0)
    texts, labels = torch.tensor(raw.train, dtype=torch.float32), torch.tensor(raw.labels)
    down = torch.nn.Linear(texts.shape[1], dimensions)
    head = torch.nn.Linear(dimensions, 2)
    optimizer = torch.optim.Adam([*down.parameters(), *head.parameters()], RATE, weight_decay=1e-4)
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(head(torch.tanh(down(texts))), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def apply(part: Numbers) -> Numbers:
        with torch.inference_mode():
            return torch.tanh(down(torch.tensor(part, dtype=torch.float32))).double().numpy()

    return raw._replace(train=apply(raw.train), test=apply(raw.test))


def lifted(raw: Data, table: EmbeddingTable) -> dict[str, Any]:
    """The accuracy of each system as it should be, with each lift, with all, without noise."""
    found: dict[str, Any] = {}
    for name, (dimensions, eta) in LIFTED.items():
        for lift in ("none", *LIFTS, "all", "no noise"):
            lifts = {"none": (), "all": LIFTS, "no noise": ()}.get(lift, (lift,))
            at = np.inf if lift == "no noise" else eta
            of_draws = [
                with_lifts(raw, table, name, dimensions, at, lifts, draw) for draw in range(DRAWS)
            ]
            found.setdefault(name, {})[lift] = float(np.mean(of_draws))
    return found


def with_lifts(
    raw: Data,
    table: EmbeddingTable,
    name: str,
    dimensions: int,
    eta: float,
    lifts: tuple[str, ...],
    draw: int,
) -> float:
    """Compute the accuracy of one draw of a system with some lifts."""
    made = mechanism(name, encoder=MINILM, dimensions=dimensions)
    assert isinstance(made, FramedText)
    if "trained projection" in lifts:
        centre = frame(made, table).centre
        centred = raw._replace(train=unit(raw.train - centre), test=unit(raw.test - centre))
        small = projected(centred, WIDTH)
        data = small._replace(train=made.normalized(small.train), test=made.normalized(small.test))
    else:
        data = raw._replace(train=made.shaped(raw.train, table), test=made.shaped(raw.test, table))
    # With half the sensitivity the noise is half as large.
    spent = _half(made, eta) if "half the sensitivity" in lifts else eta
    epochs = EPOCHS if "redrawn noise" in lifts else 1
    train = [released(made, data.train, spent, draw, "train", epoch) for epoch in range(epochs)]
    asked = np.inf if "none at inference" in lifts else spent
    test = released(made, data.test, asked, draw, "test")
    return accuracy(Data(np.concatenate(train), np.tile(data.labels, epochs), test, data.right))


def dropout(
    texts: list[list[str]], asked: list[list[str]], raw: Data, table: EmbeddingTable
) -> dict[str, Any]:
    """The accuracy of DPNR by the share of words that it leaves out and by ε."""
    found: dict[str, Any] = {}
    for mu, eta in product(LEFT_OUT, LEFT_OUT_AT):
        made = mechanism("dpnr", encoder=MINILM, mu=mu)
        assert isinstance(made, FramedText)
        of_draws = []
        for draw in range(DRAWS):
            parts = {}
            for split, own in (("train", texts), ("test", asked)):
                streams = [stream(0, "dropout", draw, split, at) for at in range(len(own))]
                parts[split] = np.concatenate(made.release_texts(own, streams, table, eta))
            of_draws.append(accuracy(raw._replace(train=parts["train"], test=parts["test"])))
        found.setdefault(f"{mu:g}", {})[f"{eta:g}"] = float(np.mean(of_draws))
    return found


def _half(made: FramedText, eta: float) -> float:
    """The η at which the noise is that of half the sensitivity."""
    if made.name != "gaussian":
        return 2 * eta
    from scipy.optimize import brentq

    half = made.size(eta) / 2
    return float(brentq(lambda e: made.size(e) - half, eta, 100 * eta))


def main(train: str, test: str) -> None:
    """Write the figures."""
    made = mechanism("sequence-representation", encoder=MINILM)
    table = EmbeddingTable(cached_table())
    (texts, labels), (asked, right) = read(train, ROWS), read(test)
    with threadpool_limits(1):
        encode: Callable[..., Numbers] = partial(made.encode, table=table)  # type: ignore[attr-defined]
        raw = Data(encode(texts), labels, encode(asked), right)
        content = {
            "rows": {"train": len(labels), "test": len(right)},
            "majority": float(max(np.bincount(right)) / len(right)),
            "cells": cells(raw, table),
            "lifts": lifted(raw, table),
            "dropout": dropout(texts, asked, raw, table),
        }
    files.write_json(OUT, content)


if __name__ == "__main__":
    main(*sys.argv[1:])
