"""From a release to the cells of the attacks on it, each by its stage."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rapt.utils import files
from stages import channel, invert, privatize
from tests.stages.test_denoise import small as small
from tests.tuning.conftest import backbone as backbone

ATTACKS = (
    *(("nearest", 0), ("autoencoder", 0), ("bayes", 1)),
    *(("bayes-twice", 0), ("bayes-context", 0)),
)


@pytest.mark.parametrize("eta", ["3", "inf"])
def test_inversions_with_and_without_the_channel(small: Path, eta: str) -> None:
    path = Path("data/tagged/mine")
    train, test = (files.read_parquet(path / f"{split}.parquet") for split in ("train", "test"))
    files.write_parquet(path / "train.parquet", pa.concat_tables([train, test.slice(0, 1)]))
    victims = test["words"].to_pylist()
    privatize.main("mine", "pct2t", eta, "minilm", Path(f"data/private/mine/pct2t-{eta}"))
    channel.main("minilm", "pct2t", eta)
    for attack, key in ATTACKS:
        invert.main(attack, "mine", "pct2t", eta)
        cell = files.read_json(f"reports/cells/invert/{attack}-mine-pct2t-{eta}.json")
        assert cell["factors"]["attack"] == attack
        counts = {"words": 96, "protected": 72}
        if attack == "bayes-context":  # which has read none of the victims' texts
            counts["texts of mine"] = sum(w not in victims for w in train["words"].to_pylist())
        assert cell["counts"] == counts
        # Two seeds' copies are two repetitions, or one of an attacker who has both.
        assert [seed["seed"] for seed in cell["seeds"]] == (
            [0] if attack == "bayes-twice" else [0, 1]
        )
        private = cell["metrics"]["empirical_privacy"]
        assert private["low"] <= private["mean"] <= private["high"]
        assert ("accuracy_protected" in cell["upper_bounds"]) == key
        assert ("squared_error" in cell["metrics"]) == (attack == "autoencoder")
        if eta == "inf":
            assert private["mean"] == 0 or attack == "autoencoder"  # 72 words teach it little
            assert list(cell["upper_bounds"].values()) == [1.0] * key
        else:
            assert 0 < private["mean"] < 1
