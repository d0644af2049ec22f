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
from tests.every_section import EVERY, Edit, lines


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


def generate(c: dict[str, Any], **sweep: Any) -> None:
    """Make film reviews a task of kind generate, which is scored."""
    c["tasks"]["movies"] |= {"kind": "generate", "references": "texts", "label": None}
    c["studies"] = {}
    c["sweep"] |= {"score": ["movies"], **sweep}


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (
            lambda c: generate(c, score=[]),
            "sweep.score: got no movies, expected every task of kind generate.",
        ),
        (
            lambda c: generate(c, tuners=["probe"]),
            "sweep.tuners (with task movies, of kind generate): got 'probe', expected one of full,",
        ),
        (
            lambda c: generate(c, backbones=["bilstm"], tuners=["full"]),
            "backbones.bilstm.encoder: got one with task movies, of kind generate, expected null.",
        ),
        (
            lambda c: generate(c, methods=["token-representation"], attacked=[], channels=[]),
            "methods.token-representation: got a mechanism that releases a vector for each word, "
            "with task movies of kind generate, expected one that releases words alone, one for ",
        ),
        (  # untuned, it is released all the same
            lambda c: generate(
                c, train=[], score=[], methods=["token-representation"], attacked=[], channels=[]
            ),
            "methods.token-representation: got a mechanism that releases a vector for each word, "
            "with task movies of kind generate, expected one that releases words alone, one for ",
        ),
        (
            lambda c: generate(c, denoisers=["posterior-mean"]),
            "sweep.denoisers: got some with task movies, of kind generate, expected none.",
        ),
        (
            lambda c: generate(c, memberships=["loss"]),
            "sweep.memberships: got some with task movies, of kind generate, expected none.",
        ),
        (
            lambda c: generate(c, layers=["t2t-75"]),
            "sweep.layers: got task movies, of kind generate, expected kind classify.",
        ),
        (
            lambda c: generate(c, probes=["full"]),
            "sweep.probes: got some with task movies, of kind generate, expected none.",
        ),
        (
            lambda c: c["sweep"].update(score=["movies"]),
            "sweep.score: got 'movies', expected nothing",
        ),
        (
            lambda c: (
                generate(c),
                c.update(studies={"one": EVERY["studies"]["reconstruction-mean"]}),
            ),
            "studies.one.task: got 'movies', expected",
        ),
    ],
)
def test_texts_that_are_written_go_with_what_can_score_them(edit: Edit, line: str) -> None:
    def with_probe(c: dict[str, Any]) -> None:
        c["tuners"]["probe"] = "linear-probe"
        edit(c)

    assert any(told.startswith(line) for told in lines(with_probe)), lines(with_probe)


WHOLE = {"mechanism": "adept", "plain_tokens": None, "reconstruction": None}


def whole(c: dict[str, Any], **sweep: Any) -> None:
    """Sweep over a method that releases one vector for each text, and what goes with it."""
    c["methods"]["whole"] = {"mechanism": "adept"}
    c["tuners"]["tfidf"] = {"type": "tfidf"}
    c["sweep"] |= {"methods": ["whole"], "attacked": ["whole"], "channels": []}
    c["sweep"] |= {"channel_inversions": [], "inversions": [], "recognitions": [], **sweep}


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (
            lambda c: whole(c, etas=["replaced-50"], tune_at=[]),
            "methods.whole: got a mechanism that releases one vector for each text, with the level "
            "replaced-50, expected one that releases a word for each word.",
        ),
        (
            lambda c: whole(c, probes=["tfidf"]),
            "methods.whole: got a mechanism that releases one vector for each text, with tuner "
            "tfidf, expected one that releases words.",
        ),
        (
            lambda c: whole(c, inferences=["authorship"]),
            "methods.whole: got a mechanism that releases one vector for each text, with attack "
            "authorship, expected one that releases words.",
        ),
        (
            lambda c: whole(c, inversions=["nearest"]),
            "methods.whole: got a mechanism that releases one vector for each text, with attack "
            "nearest, expected one that releases a word for each word.",
        ),
        (
            lambda c: whole(c, channels=["whole"]),
            "sweep.channels: got 'whole', expected one of pct2t, rapt, rapt-mean, t2t",
        ),
        (
            lambda c: (
                c["tasks"]["movies"].update(kind="choose", choices="options")
                or c["methods"]["rapt-mean"].update(WHOLE)
            ),
            "methods.rapt-mean: got a mechanism that releases one vector for each text, with task "
            "movies of kind choose, expected one that releases a word for each word.",
        ),
        (
            lambda c: c["methods"]["rapt"].update(mechanism="adept"),
            "methods.rapt: got plain_tokens, expected none with mechanism adept: it releases one "
            "vector for each text.",
        ),
    ],
)
def test_what_reads_words_has_a_release_of_words(edit: Edit, line: str) -> None:
    assert any(told.startswith(line) for told in lines(edit)), lines(edit)
