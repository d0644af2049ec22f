"""A workspace with a release, and changes of it that its gate must see."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from rapt import params
from rapt.results.gates import stop
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import gate_private, privatize
from tests.conftest import NOUNS, OTHERS, ROOT, VERBS
from tests.stages.conftest import edited

RELEASE = Path("data/private/movies/rapt-2")
GATE = Path("reports/gates/private/movies/rapt-2.json")


@pytest.fixture
def workspace(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
        make_release(table)
    return folder


def make_release(table: EmbeddingTable) -> None:
    yaml = YAML(typ="safe")
    content = yaml.load(ROOT / "tests/every_section.yaml")
    for method in ("pct2t", "rapt", "rapt-mean"):
        content["methods"][method]["categories"] = ["noun", "verb"]
    yaml.dump(content, Path("params.yaml"))
    shutil.copytree(table.folder, "models/tables/minilm")
    rng = np.random.default_rng(0)
    tags = [*["NOUN"] * len(NOUNS), *["VERB"] * len(VERBS), "DET", "ADV", "PUNCT", "NUM"]
    for split in ("train", "test"):
        picks = rng.integers(len(tags), size=(100, 8))
        columns: dict[str, Any] = {
            "example_id": [f"{split}-{i:06d}" for i in range(100)],
            "words": [[[*NOUNS, *VERBS, *OTHERS][i] for i in row] for row in picks],
            "pos": [[tags[i] for i in row] for row in picks],
            "space_after": [[True] * 8] * 100,
            "identifier": [
                ["number" if i == len(tags) - 1 else None for i in row] for row in picks
            ],
            "segment": pa.array([[0] * 8] * 100, pa.list_(pa.int8())),
            "label": [0, 1] * 50,
        }
        files.write_parquet(f"data/tagged/movies/{split}.parquet", pa.table(columns))
    privatize.main("movies", "rapt", "2", "minilm", RELEASE)


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
