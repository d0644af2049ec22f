"""The candidate table of the model that params.yaml names."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rapt import paths
from rapt.text.table import EmbeddingTable
from stages import tables
from tests.stages.conftest import Workspace
from tests.tuning.conftest import backbone as backbone


def test_a_table_has_the_words_and_vectors_of_its_model(
    workspace: Workspace, backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace())
    yaml = YAML(typ="safe")
    content = yaml.load(Path("params.yaml"))
    content["embeddings"]["tiny"] = {"model": str(backbone), "sha256": None, "extra_pos": None}
    yaml.dump(content, Path("params.yaml"))
    tables.main("tiny")
    table = EmbeddingTable(paths.table("tiny"))
    assert {"good", "bad", "film"} <= set(table.words)
    assert table.vectors.shape == (len(table.words), 32)
