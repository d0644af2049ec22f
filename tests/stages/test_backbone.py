"""Where a backbone comes from."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from rapt import models, params, paths
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import backbone as stage
from stages import privatize, train
from tests.stages.conftest import edited, write_tagged
from tests.tuning.test_pretraining import encoder as encoder


def test_a_backbone_is_named_with_its_digests_and_not_copied(small: Path, backbone: Path) -> None:
    out = paths.backbone("tiny")
    assert [path.name for path in out.iterdir()] == ["source.json"]
    (name,) = [path.name for path in backbone.glob("*.safetensors")]
    assert files.read_json(out / "source.json") == {
        "model": str(backbone),
        "weights": {name: files.sha256(backbone / name)},
    }
    assert models.of_source(out) == backbone


def test_other_weights_are_refused_until_it_is_located_again(small: Path, backbone: Path) -> None:
    shutil.copytree(backbone, "mine")
    with edited() as params:
        params["backbones"]["tiny"]["model"] = "mine"
    stage.main("tiny")
    (weights,) = Path("mine").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes() + b"x")
    with pytest.raises(RaptError, match=r"^model 'mine': got other weights than those in .*source"):
        models.of_source(paths.backbone("tiny"))
    stage.main("tiny")
    assert models.of_source(paths.backbone("tiny")) == Path("mine").resolve()


@pytest.mark.slow
def test_a_pretrained_backbone_is_written_whole_and_tuned(small: Path, encoder: Path) -> None:
    """On the training rows of another task, without those that the tuned one shares with it."""
    for split in ("train", "test"):
        rows = files.read_parquet(f"data/tagged/mine/{split}.parquet").to_pydict()
        words = [[*text, "the", text[0]] for text in rows["words"]]
        pos = [[*tags, "DET", tags[0]] for tags in rows["pos"]]
        own = slice(0, 1 if split == "test" else 0)
        words, pos = words + rows["words"][own], pos + rows["pos"][own]
        label = rows["label"] + rows["label"][own]
        write_tagged("public", split, words, pos=pos, label=label)
    how = {"corpus": ["public"], "method": "t2t", "eta": 3, "steps": 4, "head_steps": 2}
    how |= {"checks": 2, "batch_size": 8, "max_tokens": 16, "draws": 4}
    with edited() as content:
        content["tasks"]["public"] = content["tasks"]["mine"]
        content["sweep"] |= {"tasks": ["mine", "public"], "train": ["mine"]}
        content["backbones"]["tiny"] = {"model": str(encoder), "pretrained": how}
    stage.main("tiny")
    out = paths.backbone("tiny")
    told = files.read_json(out / "source.json")
    assert told["model"] == str(encoder) and told["pretrained"]["left_out"] == {
        "train": 0,
        "test": 1,
    }
    assert [check["step"] for check in told["pretrained"]["checks"]] == [2, 4]
    assert models.of_source(out) == out
    assert not list(Path(".rapt/checkpoints").glob("*.safetensors"))
    privatize.main("mine", "t2t", "3", "minilm", Path("data/private/mine/t2t-3"))
    train.main("mine-tiny-lora-t2t-3", "mine", "tiny", "lora", "t2t", "3")
    cell = files.read_json("reports/cells/train/mine-tiny-lora-t2t-3.json")
    assert 0 <= cell["metrics"]["accuracy"]["mean"] <= 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"corpus": ["mine"]}, r"backbones\.tiny\.pretrained\.corpus: got 'mine', expected"),
        ({"method": "none"}, r"backbones\.tiny\.pretrained\.method: got 'none', expected one of"),
        ({"eta": 0}, r"backbones\.tiny\.pretrained\.eta: got 0, expected"),
        ({"objective": "any"}, r"backbones\.tiny\.pretrained\.objective: got 'any', expected"),
    ],
)
def test_a_pretraining_that_cannot_be_is_one_line(small: Path, change: Any, line: str) -> None:
    with edited() as content:
        given = {"corpus": ["public"], "method": "t2t", "eta": 3} | change
        content["tasks"]["public"] = content["tasks"]["mine"]
        content["sweep"] |= {"tasks": ["mine", "public"], "train": ["mine"], "tuners": ["lora"]}
        content["backbones"]["tiny"] |= {"pretrained": given}
        content["sweep"]["backbones"] = ["tiny"]
    with pytest.raises(RaptError, match=line):
        params.load()
