"""A tuned cell of the grid, from its release."""

from __future__ import annotations

from pathlib import Path

import pytest

from rapt.utils import files
from stages import privatize, train
from tests.stages.test_denoise import small as small
from tests.tuning.conftest import backbone as backbone

CELL = "mine-tiny-lora-pct2t-3"


@pytest.mark.slow
def test_every_seed_is_tuned_on_the_release_of_its_cell(small: Path) -> None:
    privatize.main("mine", "pct2t", "3", "minilm", Path("data/private/mine/pct2t-3"))
    train.main(CELL, "mine", "tiny", "lora", "pct2t", "3")
    cell = files.read_json(f"reports/cells/train/{CELL}.json")
    assert cell["factors"] == {
        "task": "mine",
        "backbone": "tiny",
        "tuner": "lora",
        "method": "pct2t",
        "eta": "3",
        "embedding": "minilm",
    }
    assert [seed["seed"] for seed in cell["seeds"]] == [0, 1]
    contract = files.read_json(f"models/adapters/{CELL}/seed-1/rapt.json")
    assert (contract["statement"]["method"], contract["statement"]["eta"]) == ("pct2t", "3")
