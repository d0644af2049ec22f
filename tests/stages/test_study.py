"""A tuned cell off the grid, from the release of its study."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rapt import paths
from rapt.utils import files
from stages import privatize, study
from tests.stages.test_denoise import small as small
from tests.tuning.conftest import backbone as backbone


@pytest.mark.slow
def test_a_study_has_the_factors_of_its_params(small: Path) -> None:
    yaml = YAML(typ="safe")
    content = yaml.load(Path("params.yaml"))
    content["studies"]["mine"] = {
        "task": "mine",
        "embedding": "minilm",
        "method": "pct2t",
        "eta": 3,
        "backbone": "tiny",
        "tuner": "lora",
    }
    yaml.dump(content, Path("params.yaml"))
    privatize.main("mine", "pct2t", "3", "minilm", paths.study_release("mine"))
    study.main("mine")
    cell = files.read_json("reports/cells/study/mine.json")
    assert (cell["factors"]["study"], cell["factors"]["tuner"]) == ("mine", "lora")
    assert [seed["seed"] for seed in cell["seeds"]] == [0, 1]
