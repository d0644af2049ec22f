"""From a tagged data set to a cell on denoised words, each step by its stage."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file

from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import backbone as backbone_stage
from stages import channel, denoise, privatize
from tests.conftest import NOUNS, VERBS
from tests.stages.conftest import Workspace, edited
from tests.tuning.conftest import backbone as backbone
from tests.tuning.conftest import in_this_process as in_this_process

CELL = "mine-tiny-lora-pct2t-3"
KINDS = ("posterior-mean", "posterior-sample", "posterior-public", "posterior-target")


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
        columns = {
            "example_id": [f"{split}-{i:06d}" for i in range(24)],
            "words": [["the", *rng.choice([*NOUNS, *VERBS], 3)] for _ in range(24)],
            "pos": [["DET", "NOUN", "NOUN", "VERB"]] * 24,
            "identifier": [[None] * 4] * 24,
            "space_after": [[True] * 4] * 24,
            "segment": [[0] * 4] * 24,
            "label": [0, 1] * 12,
        }
        types = pa.table(columns).schema.set(3, pa.field("identifier", pa.list_(pa.string())))
        files.write_parquet(root / f"data/tagged/mine/{split}.parquet", pa.table(columns, types))
    return root


@pytest.mark.slow
def test_a_release_its_channel_and_a_backbone_make_a_cell(
    small: Path, in_this_process: None
) -> None:
    privatize.main("mine", "pct2t", "3", "minilm", Path("data/private/mine/pct2t-3"))
    channel.main("minilm", "pct2t", "3")
    digests = []
    for kind in KINDS:
        cell = f"{CELL}-{kind}"
        denoise.main(cell, "mine", "tiny", "lora", "pct2t", "3", kind, "minilm")
        found = files.read_json(f"reports/cells/denoise/{cell}.json")
        assert found["factors"]["denoiser"] == kind
        assert (found["kind"], found["protection"]) == ("denoise", "d_X-privacy")
        assert [seed["seed"] for seed in found["seeds"]] == [0, 1]
        folder = Path("models/adapters", cell)
        assert sorted(path.name for path in folder.iterdir()) == ["seed-0", "seed-1"]
        how = files.read_json(folder / "seed-1/rapt.json")["denoiser"]
        assert how == kind.replace("public", "mean")
        words = files.read_json(folder / "seed-0/denoised/words.json")
        assert words == [*NOUNS, *VERBS]  # what the mechanism can release, not the determiner
        vectors = load_file(folder / "seed-0/denoised/vectors.safetensors")["vectors"]
        assert vectors.shape == (len(words), 32)
        assert np.isfinite(vectors).all()
        digests.append(files.sha256(folder))
        # A prior that is fitted to the release is the seed's own; the public one is that of all.
        other = load_file(folder / "seed-1/denoised/vectors.safetensors")["vectors"]
        assert np.array_equal(vectors, other) == (kind in ("posterior-public", "posterior-target"))
        predicts = "reconstruction_loss" in found["seeds"][0]["curves"]
        assert predicts == (kind == "posterior-target")
    assert len(set(digests)) == len(KINDS)
