"""From a level in params.yaml to a release, its gate and a channel at the η that was found."""

from pathlib import Path

import pytest

from rapt import paths
from rapt.privacy import seeded
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import channel, gate_private, levels, privatize
from tests.stages.conftest import RELEASE, edited

LEVEL = "replaced-60"


def swept(*etas: object) -> None:
    with edited() as content:
        content["sweep"] |= {"methods": ["t2t", "rapt"], "attacked": [], "etas": list(etas)}
        content["sweep"] |= {"tune_at": [], "channels": ["t2t"], "channel_inversions": []}
        content["channel"] |= {"frequent": 4, "sampled": 6, "draws": 10, "by_frequency": 0}
        content["calibrate"] |= {"words": 400, "draws": 100}
        content["studies"] = {}


def test_a_level_becomes_the_eta_of_each_method(movies: Path) -> None:
    swept(LEVEL, 2)
    levels.main("minilm")
    rows = files.read_json(paths.levels("minilm"))
    assert [(row["method"], row["level"]) for row in rows] == [("t2t", LEVEL), ("rapt", LEVEL)]
    etas = {row["method"]: row["eta"] for row in rows}
    assert etas["t2t"] != etas["rapt"]
    digest = files.sha256("reports/levels")
    levels.main("minilm")
    assert files.sha256("reports/levels") == digest

    for method, eta in (("t2t", LEVEL), ("t2t", "2"), ("rapt", LEVEL)):
        out = RELEASE.with_name(f"{method}-{eta}")
        privatize.main("movies", method, eta, "minilm", out)
        found = files.read_json(out / "statement.json")
        expected = repr(etas[method]) if eta == LEVEL else eta
        assert (found["eta"], found.get("level")) == (expected, LEVEL if eta == LEVEL else None)
        assert f"at eta {expected}." in out.with_name(f"{out.name}.txt").read_text()
    privatize.main("movies", "clean", "inf", "minilm", RELEASE.with_name("clean"))
    gate_private.main("movies")
    for method in ("t2t", "rapt"):
        gate = files.read_json(paths.private_gate(f"movies/{method}-{LEVEL}"))
        assert gate["passed"] and gate["eta"] == repr(etas[method])
    channel.main("minilm", "t2t", LEVEL)
    found = files.read_json(paths.channel_statistics("minilm", f"t2t-{LEVEL}"))
    assert 0.2 < found["sampled"]["replaced"] < 0.95


def test_without_levels_there_is_nothing_to_find(movies: Path) -> None:
    swept(1, 2)
    levels.main("minilm")
    assert files.read_json(paths.levels("minilm")) == []
    with pytest.raises(
        RaptError, match=r"got no η of replaced-60, expected one\. Try: dvc repro le"
    ):
        seeded.privatizer("minilm", {"type": "t2t"}, None, LEVEL)
