"""Inversions by their stage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from rapt.utils import files
from stages import invert, privatize
from tests.stages.releases import GATE, RELEASE, gate
from tests.stages.releases import workspace as workspace


def test_inf_is_unprotected_and_recovered_whole(workspace: Path) -> None:
    out = Path("data/private/movies/rapt-inf")
    privatize.main("movies", "rapt", "inf", "minilm", out)
    gate(out)
    assert json.loads(GATE.read_text())["replaced"][0]["replaced"] == 0
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
    kept = files.read_parquet("reports/predictions/invert/nearest-movies-rapt-2.parquet")
    kept = kept.filter(pc.equal(kept["seed"], 0))
    assert kept["example_id"].to_pylist() == tagged["example_id"]
    assert (sum(kept["right"].to_pylist()), sum(kept["counted"].to_pylist())) == (
        sum(same),
        len(same),
    )
