"""A table of words, its distances, and what mechanisms make of its words."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from rapt import paths
from rapt.privacy.channel import Channel
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import calibrate, channel, tables
from tests.stages.conftest import Workspace, edited


@pytest.fixture
def small(workspace: Workspace, table: EmbeddingTable) -> Path:
    """A workspace with the tiny table."""
    root = workspace()
    shutil.copytree(table.folder, root / "models/tables/minilm")
    with edited(root / "params.yaml") as params:
        for how in (params["calibrate"], params["methods"]["pct2t"]):
            how["categories"] = ["noun", "verb"]
        params["calibrate"] |= {"etas": [1, 3, 1000], "replaced": [0.5], "words": 14, "draws": 10}
        params["channel"] |= {"frequent": 4, "sampled": 6, "draws": 10, "by_frequency": 0}
        params["sweep"]["channel_inversions"] = []
    return root


def test_calibrate_writes_curves_and_targets(small: Path) -> None:
    calibrate.main("minilm")
    found = files.read_json("reports/calibration/minilm.json")
    assert (found["words"], found["draws"]) == (14, 10)
    for mechanism in ("t2t", "pct2t"):
        low, middle, clean = found["curves"][mechanism]
        assert [p["eta"] for p in (low, middle, clean)] == ["1", "3", "1000"]
        assert low["replaced"] > middle["replaced"] > clean["replaced"] == 0
        assert (clean["n_w"], clean["replaced_high"]) == (1000, 0)
        # The tiny table is not of English: what stands in its texts is not known.
        assert (low["protected"], low["all_words"]) == (low["replaced"], None)
        (target,) = found["targets"][mechanism]
        assert target["eta_low"] < target["eta"] < target["eta_high"]
    digest = files.sha256("reports")
    calibrate.main("minilm")
    assert files.sha256("reports") == digest


def test_what_has_no_end_is_null(small: Path, table: EmbeddingTable) -> None:
    """Over half of the words are twins of others, always replaced: no η is too large."""
    vectors = np.tile(table.vectors[:2], (9, 1))
    np.save("models/tables/minilm/vectors.npy", vectors)
    calibrate.main("minilm")
    (target,) = files.read_json("reports/calibration/minilm.json")["targets"]["t2t"]
    assert (target["eta"], target["eta_high"]) == (None, None)


def test_geometry_writes_distances(small: Path) -> None:
    calibrate.main("minilm")
    found = files.read_json("reports/statistics/geometry/minilm.json")
    assert (found["words"], found["dimension"], found["sampled"]) == (18, 8, 18)
    assert [n["k"] for n in found["neighbours"]] == [1, 10]
    assert found["neighbours"][0]["mean"] < found["neighbours"][1]["mean"]
    assert [c["category"] for c in found["categories"]] == ["every word", "noun", "verb"]


@pytest.mark.parametrize("method", ["t2t", "pct2t"])
def test_channel_writes_the_matrix_and_its_statistics(
    small: Path, table: EmbeddingTable, method: str
) -> None:
    channel.main("minilm", method, "3")
    read = Channel.load(Path(f"models/channels/minilm/{method}-3"), len(table.words))
    found = files.read_json(f"reports/statistics/channels/minilm/{method}-3.json")
    words = files.read_parquet(f"models/channels/minilm/{method}-3/words.parquet")
    sampled = read.of(np.array(words["sampled"].to_pylist()))
    assert (found["method"], found["eta"], found["draws"]) == (method, "3", 10)
    assert (found["sampled"]["words"], found["frequent"]["words"]) == (6, 4)
    assert found["sampled"] == sampled.statistics()
    assert found["sampled"]["n_w"] == sorted(found["sampled"]["n_w"])
    assert words["row"].to_pylist()[:4] == [0, 1, 2, 3]
    digest = files.sha256("models/channels")
    channel.main("minilm", method, "3")
    assert files.sha256("models/channels") == digest


def test_a_table_has_the_words_and_vectors_of_its_model(
    workspace: Workspace, backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace())
    with edited() as content:
        content["embeddings"]["tiny"] = {"model": str(backbone), "sha256": None, "extra_pos": None}
    tables.main("tiny")
    table = EmbeddingTable(paths.table("tiny"))
    assert {"good", "bad", "film"} <= set(table.words)
    assert table.vectors.shape == (len(table.words), 32)
