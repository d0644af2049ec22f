"""Workspaces with params of every section, texts, a table and a release, as a test needs them."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from rapt import params
from rapt.results.gates import stop
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import backbone as backbone_stage
from stages import gate_private, privatize
from tests.conftest import NOUNS, OTHERS, ROOT, VERBS
from tests.data.conftest import make_task
from tests.tuning.conftest import backbone as backbone

Workspace = Callable[..., Path]
RELEASE = Path("data/private/movies/rapt-2")
GATE = Path("reports/gates/private/movies/rapt-2.json")


@contextmanager
def edited(path: Path = Path("params.yaml")) -> Iterator[Any]:
    """Change the content of params.yaml."""
    yaml = YAML(typ="safe")
    content = yaml.load(path)
    yield content
    yaml.dump(content, path)


def put_columns(path: str | Path, **columns: Any) -> None:
    """Replace columns of a Parquet file, or add them."""
    table = files.read_parquet(path)
    files.write_parquet(path, pa.table(dict(zip(table.column_names, table, strict=True)) | columns))


def write_tagged(task: str, split: str, words: list[list[str]], **columns: Any) -> None:
    """Lay tagged texts, each of one segment of nouns where `columns` say nothing else."""
    each = {
        "pos": ("NOUN", pa.string()),
        "identifier": (None, pa.string()),
        "space_after": (True, pa.bool_()),
        "segment": (0, pa.int8()),
    }
    alike = {
        name: pa.array([[value] * len(text) for text in words], pa.list_(kind))
        for name, (value, kind) in each.items()
    }
    ids = [f"{split}-{i:06d}" for i in range(len(words))]
    table = pa.table({"example_id": ids, "words": words, **alike, **columns})
    files.write_parquet(f"data/tagged/{task}/{split}.parquet", table)


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train all seeds in this process, as another takes seconds to start.

    That processes change nothing has a test in tests/tuning/test_parallel.py.
    """
    here = nullcontext(SimpleNamespace(map=map))
    monkeypatch.setattr("rapt.tuning.parallel.ProcessPoolExecutor", lambda *_: here)
    for name in ("TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS"):  # which it sets
        monkeypatch.setenv(name, "")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Make a workspace whose task `mine` is a file of 60 short texts, or something else."""

    def make(**changes: Any) -> Path:
        yaml = YAML(typ="safe")
        content = yaml.load(ROOT / "tests/every_section.yaml")
        task = {
            "label": {"column": "y", "names": ["bad", "good"], "threshold": None},
            "attributes": {"author": {"type": "values", "column": "who", "values": ["me", "you"]}},
            "rows": {"train": None, "test": 10},
            **changes,
        }
        content["tasks"]["mine"] = make_task({"all": "mine.csv"}, **task).model_dump()
        content["sweep"] |= {"tasks": ["mine"], "train": [], "invert": []}
        content["sweep"] |= {"infer": [], "recognize": []}
        content["studies"] = {}
        content["gate"]["min_rows"] = 10
        yaml.dump(content, tmp_path / "params.yaml")
        rows = [f"secret {i},{i % 2},{'me' if i % 3 else 'you'}" for i in range(60)]
        (tmp_path / "mine.csv").write_text("\n".join(["text,y,who", *rows]) + "\n")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return make


@pytest.fixture
def small(
    workspace: Workspace, table: EmbeddingTable, backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A workspace with a table, a backbone and 24 tagged texts."""
    root = workspace()
    monkeypatch.setenv("RAPT_HOME", str(root))
    shutil.copytree(table.folder, root / "models/tables/minilm")
    with edited(root / "params.yaml") as params:
        params["methods"]["pct2t"]["categories"] = ["noun", "verb"]
        params["channel"] |= {"frequent": 4, "sampled": 6, "draws": 10, "by_frequency": 50}
        params["backbones"]["tiny"] = {"model": str(backbone), "sha256": None, "encoder": None}
        params["sweep"]["backbones"] = ["tiny"]
        params["train"] |= {"epochs": 1, "batch_size": 8}
    backbone_stage.main("tiny")
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        words = [["the", *rng.choice([*NOUNS, *VERBS], 3)] for _ in range(24)]
        pos = [["DET", "NOUN", "NOUN", "VERB"]] * 24
        write_tagged("mine", split, words, pos=pos, label=[0, 1] * 12)
    return root


@pytest.fixture
def movies(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the release, and of what it was made from, to change."""
    shutil.copytree(released, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def released(table: EmbeddingTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred tagged texts of eight words, and params with two methods that fit the table."""
    folder = tmp_path_factory.mktemp("released")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shutil.copy(ROOT / "tests/every_section.yaml", "params.yaml")
        with edited() as content:
            for method in ("pct2t", "rapt", "rapt-mean"):
                content["methods"][method]["categories"] = ["noun", "verb"]
        shutil.copytree(table.folder, "models/tables/minilm")
        rng = np.random.default_rng(0)
        vocabulary = [*NOUNS, *VERBS, *OTHERS]
        tags = [*["NOUN"] * len(NOUNS), *["VERB"] * len(VERBS), "DET", "ADV", "PUNCT", "NUM"]
        for split in ("train", "test"):
            picks = rng.integers(len(tags), size=(100, 8))
            words, pos = ([[of[i] for i in row] for row in picks] for of in (vocabulary, tags))
            numbers = [["number" if tag == "NUM" else None for tag in row] for row in pos]
            others = {"pos": pos, "identifier": numbers, "label": [0, 1] * 50}
            write_tagged("movies", split, words, **others)
        privatize.main("movies", "rapt", "2", "minilm", RELEASE)
    return folder


def gate(out: Path = RELEASE) -> dict[str, Any]:
    """The gate's JSON, which is written also when it fails."""
    told = json.loads((out / "statement.json").read_text())
    of = (told["task"], told["method"], told["eta"], told["embedding"])
    report = gate_private.compare(out, params.load(), *of)
    files.write_json(GATE, report)
    stop({str(GATE): report})
    return report


def privatize_anew(eta: str, method: str = "rapt", **plain_tokens: Any) -> dict[str, Any]:
    """Release again with other plain tokens; returns the statement."""
    with edited() as content:
        content["allow_weak"] = float(eta) > 100
        if plain_tokens:
            content["methods"][method]["plain_tokens"].update(plain_tokens)
    shutil.rmtree(RELEASE)
    privatize.main("movies", method, eta, "minilm", RELEASE)
    return json.loads((RELEASE / "statement.json").read_text())
