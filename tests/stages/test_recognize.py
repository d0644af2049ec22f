"""From tagged texts to a recognizer, and from a release to its cell, each by its stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from rapt.utils import files
from stages import recognize, recognizer
from tests.stages.conftest import Workspace
from tests.tuning.conftest import backbone as backbone


def of_spacy(tagged: pa.Table, package: str) -> list[list[str]]:
    """In place of spaCy: "good" is a person, and nothing else."""
    words = tagged["words"].to_pylist()
    return [["B-PER" if word == "good" else "O" for word in text] for text in words]


@pytest.fixture
def attacked(workspace: Workspace, backbone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tagged texts, and releases of them: the words themselves, and with "bad" for "good"."""
    root = workspace()
    monkeypatch.setenv("RAPT_HOME", str(root))
    for stage in (recognizer, recognize):
        monkeypatch.setattr(stage, "entities", of_spacy)
    yaml = YAML(typ="safe")
    params = yaml.load(root / "params.yaml")
    tiny = {"model": str(backbone), "sha256": None, "learning_rate": 0.01, "max_tokens": 16}
    params["attacks"]["ner"] |= tiny
    yaml.dump(params, root / "params.yaml")
    rng = np.random.default_rng(0)
    for split, count in (("train", 100), ("test", 30)):
        words = [[str(w) for w in rng.choice(["good", "bad", "film"], 4)] for _ in range(count)]
        names = [f"{split}-{n}" for n in range(count)]
        columns = {"example_id": names, "words": words, "space_after": [[True] * 4] * count}
        files.write_parquet(root / f"data/tagged/mine/{split}.parquet", pa.table(columns))
    for eta, word in (("inf", "good"), ("3", "bad")):
        release = root / f"data/private/mine/t2t-{eta}"
        released = [[word if w == "good" else w for w in text] for text in words]
        for k in range(2):
            path = release / f"seed-{k}/test.parquet"
            files.write_parquet(path, pa.table({"words": released}))
        protection = "unprotected" if eta == "inf" else "d_X-privacy"
        statement = {"embedding": "minilm", "protection": protection}
        files.write_json(release / "statement.json", statement)
    return root


def test_a_recognizer_of_clean_text_makes_a_cell_of_each_release(attacked: Path) -> None:
    recognizer.main("ner", "mine")
    folder = attacked / "models/attackers/ner-mine"
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
    cells = {}
    for eta in ("inf", "3"):
        recognize.main("ner", "mine", "t2t", eta)
        cells[eta] = files.read_json(f"reports/cells/recognize/ner-mine-t2t-{eta}.json")
    texts = files.read_parquet("data/tagged/mine/test.parquet")["words"].to_pylist()
    entities = sum(text.count("good") for text in texts)
    for eta, f1 in (("inf", 1.0), ("3", 0.0)):
        cell = cells[eta]
        assert cell["kind"] == "recognize"
        assert cell["factors"]["embedding"] == "minilm"
        assert cell["counts"] == {"texts": 30, "entities": entities}
        assert [seed["metrics"]["f1"] for seed in cell["seeds"]] == [f1, f1]
        private = cell["metrics"]["empirical_privacy"]
        assert (private["mean"], private["sd"], private["n"]) == (1 - f1, 0, 2)
        # All or none of 30 texts leaves room for another one.
        assert 0.1 < private["high"] - private["low"] < 0.2
        assert cell["baselines"]["majority"] == 2 * entities / (4 * 30 + entities)
    assert (cells["inf"]["protection"], cells["3"]["protection"]) == ("unprotected", "d_X-privacy")
