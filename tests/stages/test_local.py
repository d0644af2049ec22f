"""The stage that sends nothing."""

import shutil

import pytest

from rapt.results import predictions
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import local
from tests.stages.conftest import Workspace, write_tagged


def test_the_cell_holds_the_model_that_cross_validation_chose(
    workspace: Workspace, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The letters of unknown words tell the class: all is reached without a release or a model."""
    root = workspace()
    shutil.copytree(table.folder, root / "models/tables/minilm")
    for split, count in (("train", 40), ("test", 10)):
        labels = [i % 2 for i in range(count)]
        words = [["secret", "qqwk" if label else "zzyx"] for label in labels]
        write_tagged("mine", split, words, label=labels)
    local.main("mine")
    cell = files.read_json("reports/cells/local/mine.json")
    assert cell["protection"] == "nothing sent"
    assert cell["factors"] | {"eta": "0", "method": "local"} == cell["factors"]
    assert cell["counts"] == {"train": 40, "test": 10}
    assert cell["baselines"] == {"majority": 0.5}
    found = {name: metric["mean"] for name, metric in cell["metrics"].items()}
    assert found["accuracy"] == found["accuracy_tf-idf"] == 1
    assert found["log_loss_tf-idf"] < found["log_loss_embeddings"]
    found_of = predictions.read(root / "reports/predictions/local/mine.parquet")
    assert [of.examples[0] for of in found_of.values()] == ["train-000000", "test-000000"]
    assert all(of.right.all() for of in found_of.values())
    assert "secret" not in (root / "reports/cells/local/mine.json").read_text()
