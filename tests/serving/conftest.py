"""A tiny BERT tuned on a release of a small table, and its server."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest
import torch
import uvicorn
from transformers import AutoModelForCausalLM

from rapt.kinds import kind_of
from rapt.serving.loopback import listening
from rapt.serving.model import Adapted
from rapt.serving.server import application
from rapt.text.table import EmbeddingTable
from rapt.tuning.config import Decoding, Run, TrainConfig
from rapt.tuning.train import train_seed
from rapt.tuning.tuners import Lora
from rapt.utils import files
from tests import tiny
from tests.release.conftest import FOUR
from tests.release.conftest import folder as folder
from tests.tuning.conftest import STATEMENT
from tests.tuning.conftest import backbone as backbone
from tests.tuning.families import make

PLAIN = ["film", "plot", "saw"]
Rows = dict[str, Any]  # columns of a release


def statement(folder: Path, **more: Any) -> dict[str, Any]:
    """Of a release by the table in `folder`."""
    own = {"categories": list(FOUR), "eta": "0.1", "embedding": "small"}
    return STATEMENT | own | {"table_sha256": EmbeddingTable(folder).sha256} | more


def write_release(
    release: Path, folder: Path, train: Rows, test: Rows | None = None, **more: Any
) -> None:
    """A release by the table in `folder`, of which the test split may be the same."""
    files.write_json(release / "statement.json", statement(folder, **more))
    for split, rows in (("train", train), ("test", test or train)):
        files.write_parquet(release / f"seed-0/{split}.parquet", pa.table(rows))


def write_gpt2(folder: Path) -> None:
    """A tiny random language model."""
    make("gpt2", folder, AutoModelForCausalLM)


def tuned(
    release: Path,
    backbone: Path,
    epochs: int = 1,
    max_tokens: int = 8,
    decoding: Decoding = Decoding(),  # noqa: B008
    k: int = 0,
    shards: int = 1,
) -> Path:
    """The folder of a seed, as the pipeline writes it."""
    run = Run(
        cell="small",
        release=release,
        k=k,
        seed=0,
        backbone=backbone,
        backbone_name=str(backbone),
        backbone_sha256=files.sha256(backbone / "model.safetensors"),
        tuner=Lora(r=4, alpha=8, dropout=0.0, learning_rate=0.02),
        train=TrainConfig(epochs=epochs, batch_size=8, max_tokens=max_tokens, shards=shards),
        adapter=release.parent / f"cell/seed-{k}",
        kind=kind_of(files.read_json(release / "statement.json")),
        decoding=decoding,
    )
    train_seed(run)
    return run.adapter


@pytest.fixture(scope="session")
def adapter(tmp_path_factory: pytest.TempPathFactory, backbone: Path, folder: Path) -> Path:
    release = tmp_path_factory.mktemp("serving") / "release"
    rows = {
        "words": [["good", "film"], ["bad", "plot"]] * 4,
        "segment": [[0, 0]] * 8,
        "label": [1, 0] * 4,
        "plain": [PLAIN] * 8,
    }
    write_release(release, folder, rows)
    plain = pa.table({"sequence": [0] * 3, "word": PLAIN, "target": [0, 1, 2]})
    files.write_parquet(release / "seed-0/plain.parquet", plain)
    return tuned(release, backbone)


@pytest.fixture(scope="session")
def of_pairs(tmp_path_factory: pytest.TempPathFactory, backbone: Path, folder: Path) -> Path:
    """An adapter that was tuned on pairs: the class is whether both halves are good."""
    release = tmp_path_factory.mktemp("pairs") / "release"
    halves = list(product(("good", "bad"), repeat=2)) * 8
    rows = {
        "words": [[first, "film", second, "plot"] for first, second in halves],
        "segment": [[0, 0, 1, 1]] * len(halves),
        "label": [int(pair == ("good", "good")) for pair in halves],
    }
    write_release(release, folder, rows)
    return tuned(release, backbone, epochs=10)


@pytest.fixture(scope="session")
def of_vectors(tmp_path_factory: pytest.TempPathFactory, backbone: Path, folder: Path) -> Path:
    """An adapter that was tuned on vectors of the table, of eight dimensions."""
    root = tmp_path_factory.mktemp("vectors")
    torch.manual_seed(0)
    tiny.of_width(8, backbone, root / "eight")
    more = {"mechanism": "token-representation", "parameters": {"grid": 2.0**-10}}
    words = [["great", "film"], ["bad", "plot"]] * 4
    vectors = EmbeddingTable(folder).embed([word for text in words for word in text])
    rows = {
        "words": words,
        "segment": [[0, 0]] * 8,
        "label": [1, 0] * 4,
        "vectors": files.column_of_vectors(vectors, np.full(8, 2)),
    }
    write_release(root / "release", folder, rows, **more, categories=None)
    return tuned(root / "release", root / "eight")


@pytest.fixture(scope="session")
def model(adapter: Path) -> Adapted:
    return Adapted(adapter)


class Served:
    """A server in a thread, and every byte that reached it."""

    def __init__(self, model: Any) -> None:
        self.app, self.received = application(model), b""
        self.listener = listening(0)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = uvicorn.Server(uvicorn.Config(self, access_log=False, log_level="warning"))
        self.thread = Thread(target=self.server.run, args=[[self.listener]])
        self.thread.start()

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Any) -> None:
        async def recorded() -> Any:
            message = await receive()
            self.received += message.get("body", b"")
            return message

        self.received += json.dumps(scope, default=repr).encode()
        await self.app(scope, recorded, send)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listener.close()


@pytest.fixture
def served(model: Adapted) -> Iterator[Served]:
    with Served(model) as served:
        yield served
