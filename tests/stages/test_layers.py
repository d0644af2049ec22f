"""From releases and adapters to the distances of their hidden states."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rapt.grid import released
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import layers, privatize, train
from tests.stages.test_denoise import small as small
from tests.tuning.conftest import backbone as backbone

pytestmark = pytest.mark.slow


def test_layers_of_a_privatized_model_are_set_against_those_of_clean_text(small: Path) -> None:
    yaml = YAML(typ="safe")
    content = yaml.load(Path("params.yaml"))
    content["layers"] |= {"texts": 20, "points": 5}
    content["methods"]["rapt"]["categories"] = ["noun", "verb"]
    content["methods"]["rapt"]["plain_tokens"]["length"] = 2
    yaml.dump(content, Path("params.yaml"))
    for method, eta in (("clean", "inf"), ("rapt", "3")):
        name = released(method, eta)
        privatize.main("mine", method, eta, "minilm", Path(f"data/private/mine/{name}"))
        train.main(f"mine-tiny-lora-{name}", "mine", "tiny", "lora", method, eta)
    layers.main("mine", "tiny", "lora", "rapt-3")
    path = Path("reports/statistics/layers/mine-tiny-lora-rapt-3.json")
    found, first = files.read_json(path), path.read_bytes()
    assert found["factors"] == {
        "task": "mine",
        "backbone": "tiny",
        "tuner": "lora",
        "method": "rapt",
        "eta": "3",
    }
    assert (found["texts"], found["labels"]) == (20, [0, 1, 0, 1, 0])
    assert [layer["layer"] for layer in found["layers"]] == [0, 1, 2]
    assert all(layer["distance"]["mean"] > 0 for layer in found["layers"])
    assert all(layer["spread"]["n"] == 2 for layer in found["layers"])
    assert [len(points["own"]) for points in found["points"]] == [5, 5, 5]
    # Numbers alone, and the same from the same.
    layers.main("mine", "tiny", "lora", "rapt-3")
    assert path.read_bytes() == first
    # Against itself nothing moves.
    shutil.copytree("data/private/mine/clean", "data/private/mine/t2t-9")
    shutil.copytree("models/adapters/mine-tiny-lora-clean", "models/adapters/mine-tiny-lora-t2t-9")
    layers.main("mine", "tiny", "lora", "t2t-9")
    same = files.read_json("reports/statistics/layers/mine-tiny-lora-t2t-9.json")
    assert [layer["distance"]["mean"] for layer in same["layers"]] == [0, 0, 0]


def test_releases_of_other_texts_are_refused(small: Path) -> None:
    for method, eta in (("clean", "inf"), ("pct2t", "3")):
        path = Path(f"data/private/mine/{released(method, eta)}")
        privatize.main("mine", method, eta, "minilm", path)
    table = files.read_parquet("data/private/mine/pct2t-3/seed-0/test.parquet")
    files.write_parquet("data/private/mine/pct2t-3/seed-0/test.parquet", table[1:])
    with pytest.raises(RaptError, match="got other texts than in"):
        layers.main("mine", "tiny", "lora", "pct2t-3")
