"""Inversions by their stage: of every word, with and without the channel."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rapt.utils import files
from stages import channel, gate_release, invert, privatize
from tests.stages.releases import RELEASE
from tests.stages.releases import workspace as workspace
from tests.stages.test_denoise import small as small
from tests.tuning.conftest import backbone as backbone


def test_inf_is_unprotected_and_recovered_whole(workspace: Path) -> None:
    out = Path("data/private/movies/rapt-inf")
    privatize.main("movies", "rapt", "inf", "minilm", out)
    gate_release.main(out, Path("gate.json"))
    assert json.loads(Path("gate.json").read_text())["replaced"][0]["replaced"] == 0
    invert.main("nearest", "movies", "rapt", "inf")
    cell = json.loads(Path("reports/cells/invert/nearest-movies-rapt-inf.json").read_text())
    assert cell["protection"] == "unprotected"
    assert cell["metrics"]["accuracy"]["mean"] == 1


def test_inversion_is_one_minus_the_replaced_share(workspace: Path) -> None:
    """Of the test split's protected words, as the tiny table's words are all in the table."""
    invert.main("nearest", "movies", "rapt", "2")
    cell = json.loads(Path("reports/cells/invert/nearest-movies-rapt-2.json").read_text())
    tagged = files.read_parquet("data/tagged/movies/test.parquet").to_pydict()
    after = files.read_parquet(RELEASE / "seed-0/test.parquet")["words"].to_pylist()
    same = [
        w == a
        for words, pos, released in zip(tagged["words"], tagged["pos"], after, strict=True)
        for w, tag, a in zip(words, pos, released, strict=True)
        if tag in ("NOUN", "VERB")
    ]
    assert cell["seeds"][0]["metrics"]["accuracy_protected"] == pytest.approx(np.mean(same))
    assert cell["counts"]["protected"] == len(same)


ATTACKS = (("nearest", 0), ("autoencoder", 0), ("replay", 0), ("bayes", 1), ("bayes-twice", 0))


@pytest.mark.parametrize("eta", ["3", "inf"])
def test_inversions_with_and_without_the_channel(small: Path, eta: str) -> None:
    privatize.main("mine", "pct2t", eta, "minilm", Path(f"data/private/mine/pct2t-{eta}"))
    channel.main("minilm", "pct2t", eta)
    for attack, key in ATTACKS:
        invert.main(attack, "mine", "pct2t", eta)
        cell = files.read_json(f"reports/cells/invert/{attack}-mine-pct2t-{eta}.json")
        assert cell["factors"]["attack"] == attack
        assert cell["counts"] == {"words": 96, "protected": 72}
        # Two seeds' copies are two repetitions, or one of an attacker who has both.
        assert [seed["seed"] for seed in cell["seeds"]] == (
            [0] if attack == "bayes-twice" else [0, 1]
        )
        private = cell["metrics"]["empirical_privacy"]
        assert private["low"] <= private["mean"] <= private["high"]
        assert ("accuracy_protected" in cell["ceilings"]) == key
        assert ("squared_error" in cell["metrics"]) == (attack == "autoencoder")
        if eta == "inf":
            assert private["mean"] == 0 or attack == "autoencoder"  # 72 words teach it little
            assert list(cell["ceilings"].values()) == [1.0] * key
        else:
            assert 0 < private["mean"] < 1
