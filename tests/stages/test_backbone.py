"""Where a backbone comes from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rapt import models, paths
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import backbone as stage
from tests.stages.conftest import edited
from tests.stages.test_denoise import small as small
from tests.tuning.conftest import backbone as backbone


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
