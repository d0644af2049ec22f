"""params.yaml: defaults, shorthands, and one line for each mistake."""

import copy
from typing import Any

import pytest

from rapt import params
from rapt.attacks.entities import Ner
from rapt.tuning.config import Denoiser
from rapt.tuning.tuners import Lora
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.every_section import EVERY, lines


def test_the_shipped_file_is_valid() -> None:
    p = params.load(ROOT / "params.yaml")
    assert len(p.sweep.etas) >= 2
    assert p.seeds >= 3  # fewer give no interval


def test_what_the_file_leaves_out_has_the_default_of_its_class() -> None:
    content = copy.deepcopy(EVERY)
    for section in ("gate", "train", "calibrate", "channel", "layers"):
        del content[section]
    for name, tuner in content["tuners"].items():
        content["tuners"][name] = {
            k: v for k, v in tuner.items() if k in ("type", "learning_rate", "tokens")
        }
    content["attacks"]["mlp"] = "attribute-mlp"
    assert params.validate(content) == params.validate(EVERY)


def test_a_name_stands_for_its_defaults() -> None:
    content = copy.deepcopy(EVERY)
    content["tuners"]["lora"] = "lora"
    content["attacks"]["ner"] = "ner"
    content["denoisers"]["posterior-mean"] = "posterior-mean"
    content["methods"]["one"] = {"mechanism": {"type": "pct2t"}, "categories": "noun"}
    content["methods"]["four"] = {"mechanism": "pct2t", "categories": "paper"}
    p = params.validate(content)
    assert p.tuners["lora"] == Lora()
    assert p.attacks["ner"] == Ner(type="ner")
    assert p.denoisers["posterior-mean"] == Denoiser(type="posterior-mean")
    assert p.methods["one"].categories == ["noun"]
    assert p.methods["four"].categories == ["noun", "verb", "pronoun", "preposition"]
    # Those of RAPT also where none are given, and none where the mechanism has none.
    assert p.methods["four"] == p.methods["pct2t"]
    assert p.methods["t2t"].categories is None


def test_factors_that_hold_hyphens_can_name_two_cells_alike() -> None:
    def edit(c: dict[str, Any]) -> None:
        c["tasks"]["of-movies"] = c["tasks"]["movies"]
        c["attacks"]["loss-of"] = c["attacks"]["loss"]
        c["sweep"] |= {"tasks": ["movies", "of-movies", "tweets"], "train": ["movies", "of-movies"]}
        c["sweep"] |= {"methods": ["pct2t"], "attacked": ["pct2t"], "channels": ["pct2t"]}
        c["sweep"] |= {"etas": [50], "tune_at": [50], "memberships": ["loss", "loss-of"]}

    assert [line.partition(": got two cells")[0] for line in lines(edit)] == [
        "loss-of-movies-minilm-lora-clean",
        "loss-of-movies-minilm-lora-pct2t-50",
    ]


def test_files_that_are_no_params(tmp_path: Any) -> None:
    for text, line in (
        ("a: [", "not YAML"),
        ("- 1", "got a list"),
        ("", "empty"),
        ("a: 1\na: 2", "not YAML"),
    ):
        path = tmp_path / f"{abs(hash(text))}.yaml"
        path.write_text(text)
        with pytest.raises(RaptError, match=line) as error:
            params.load(path)
        assert "\n" not in str(error.value)
    with pytest.raises(RaptError, match="got no such file"):
        params.load(tmp_path / "missing.yaml")
