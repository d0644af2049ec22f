"""Presets: whole files that are valid, short and commented, and hold what they promise."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.tokens import AliasToken, AnchorToken

from rapt import grid, params, presets
from rapt.param_types import level
from rapt.privacy.mechanisms import MECHANISMS, WordMechanism
from rapt.utils.errors import RaptError
from tests.conftest import ROOT

NAMES = ["demo", *sorted({path.stem for path in (ROOT / "presets").iterdir()} - {"demo"})]
OF_ATTACKS = {
    "attacks": "invert",
    "attributes": "infer",
    "entities": "recognize",
    "linkage": "link",
}
ETAS = ["25", "75", "125", "150", "175"]


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def content(text: str) -> Any:
    return YAML(typ="safe").load(text)


def loaded(name: str) -> params.Params:
    return params.validate(content(presets.text(name)))


def test_every_file_is_a_preset_and_the_demo_comes_first() -> None:
    assert presets.names() == NAMES
    assert all(len(presets.summary(name)) < 120 for name in NAMES)
    assert [name for name in NAMES if presets.summary(name)[-1] not in ".?"] == []  # none is cut


def test_the_shipped_params_are_the_demo() -> None:
    assert (ROOT / "params.yaml").read_text() == presets.text("demo")


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_valid_and_plans(name: str) -> None:
    p = loaded(name)
    cells = grid.plan(p)
    kind = OF_ATTACKS.get(name.split("-")[0], "train")
    assert any(cell.kind == kind for cell in cells)
    assert len(cells) <= 250, "split it: dvc.lock is written anew for every cell"


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_preset_leaves_out_what_nothing_names(name: str) -> None:
    p = loaded(name)
    studies = p.studies.values()
    assert set(p.tasks) == set(p.sweep.tasks)
    assert set(p.embeddings) == set(p.sweep.embeddings)
    assert set(p.backbones) == {*p.sweep.backbones, *(s.backbone for s in studies)}
    # `rapt init` starts from quick, whose comments offer LoRA and RAPT.
    offered = {"lora"} if name == "quick" else set()
    also = {"rapt"} if name == "quick" else set()
    named = {*p.sweep.tuners, *p.sweep.probes, *(s.tuner for s in studies)}
    assert set(p.tuners) == named | offered
    used = {*p.sweep.methods, *p.sweep.channels, *(s.method for s in studies)}
    assert set(p.methods) == used | also


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_of_a_preset_changes_one_place(name: str) -> None:
    """No anchors: `dvc exp run -S` edits the text, and what names it would change or stay."""
    tokens = YAML().scan(presets.text(name))
    assert not any(isinstance(token, AnchorToken | AliasToken) for token in tokens)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_one_page(name: str) -> None:
    lines = presets.text(name).splitlines()
    assert lines[0] == "# yaml-language-server: $schema=params.schema.json"
    assert lines[1] == f"# {presets.summary(name)}"
    assert len(lines) <= (120 if name == "demo" else 100)
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", ["paper-nlu-bert", "paper-nlu-qwen", "paper-t5"])
def test_a_table_of_the_paper_has_192_cells_of_five_seeds(name: str) -> None:
    p = loaded(name)
    # Three tasks and four tuners: of three methods at five eta, and of the clean text.
    tuned = ["train"] * 3 * 4 * (3 * 5 + 1)
    assert [cell.kind for cell in grid.plan(p)] == [*tuned, *["local"] * 3]
    assert p.seeds == 5


def test_the_paper_s_settings() -> None:
    p = loaded("paper-nlu-bert")
    assert p.sweep.etas == ETAS
    assert p.train.model_dump() == {
        "epochs": 4, "batch_size": 128, "max_tokens": 128, "warmup": 0, "weight_decay": 0,
        "precision": "float32", "held_out": 0, "schedule": "constant",
        "gradient": {"type": "plain"}, "gradient_checkpointing": False, "shards": 1,
    }  # fmt: skip
    assert {tuner.learning_rate for tuner in p.tuners.values()} == {6e-5}
    tuners = {name: tuner.model_dump() for name, tuner in p.tuners.items()}
    assert tuners["prompt"]["tokens"] == 150
    assert tuners["prefix"]["tokens"] == 10
    assert [tuners["lora"][key] for key in ("r", "alpha", "dropout")] == [16, 32, 0.05]
    assert p.methods["rapt"].plain_tokens is not None
    assert p.methods["rapt"].plain_tokens.length == 40
    assert p.methods["rapt"].reconstruction is not None
    assert p.methods["rapt"].reconstruction.model_dump() == {
        "head_size": 96, "weight": 1, "reduction": "sum", "cap": None,
    }  # fmt: skip
    assert p.methods["pct2t"].plain_tokens is None


def test_the_leaderboard_has_every_mechanism_that_reaches_its_levels() -> None:
    """The others have no η for them, or draw as SanText does: docs/experiments.md says which."""
    p = loaded("leaderboard")
    words = {n for n, kind in MECHANISMS.data.items() if issubclass(kind, WordMechanism)}
    assert {m.mechanism["type"] for m in p.methods.values()} == words - {
        "custext",
        "imola",
        "santext-plus",
        "tem",
        "truncated-gumbel",
    }
    assert set(p.sweep.methods) == set(p.sweep.attacked) == set(p.sweep.channels)
    assert len(p.sweep.etas) == 3 and all(level(eta) for eta in p.sweep.etas)


def test_attributes_are_inferred_of_strangers_and_authors_of_acquaintances() -> None:
    p = loaded("attributes")
    assert p.sweep.etas == loaded("attacks").sweep.etas
    assert not p.sweep.train
    happydb, authors = p.tasks["happydb"], p.tasks["happydb-authors"]
    assert happydb.attributes and set(happydb.attributes) == {"gender", "age"}
    assert happydb.authors and not authors.authors
    assert authors.attributes and authors.attributes["author"].type == "most-frequent"


def test_the_others_differ_as_the_papers_do() -> None:
    assert loaded("paper-nlu-qwen").embeddings == loaded("paper-nlu-bert").embeddings
    t5 = loaded("paper-t5")
    assert t5.sweep.etas == ["1", "2", "3", "5", "7"]
    assert t5.embeddings["t5"].model == t5.backbones["t5"].model
    llm = loaded("paper-llm")
    assert llm.tuners["qlora"].model_dump()["quantize"] == "4bit"
    assert len(grid.plan(llm)) == 2 * (3 * 5 + 1) + 1
    rates = {"paper-qu": 1e-3, "paper-qu-sst2": 2e-5, "paper-qu-qqp": 4e-5}
    for name, rate in rates.items():
        qu = loaded(name)
        assert (qu.train.batch_size, qu.train.epochs, qu.train.warmup) == (32, 3, 0.1)
        assert {tuner.learning_rate for tuner in qu.tuners.values()} == {rate}
        assert len(qu.sweep.etas) == 6
    mine = loaded("sst2-minilm")
    assert len(mine.sweep.etas) == 3
    assert mine.seeds == 5


@pytest.mark.parametrize("scale", ["study", "paper-study"])
def test_each_study_varies_one_thing(scale: str) -> None:
    def varied(study: str, key: str) -> set[Any]:
        methods = loaded(f"{scale}-{study}").methods.values()
        dumps = [m.model_dump() for m in methods]
        section, _, name = key.partition(".")
        return {d[section][name] if d[section] else None for d in dumps}

    assert varied("length", "plain_tokens.length") == {None, 5, 20, 40, 80}
    assert varied("sequences", "plain_tokens.sequences") == {None, *(1, 10, 50, 500, 10_000)}
    assert varied("choice", "plain_tokens.choice") == {"uniform", "frequency"}
    assert varied("vocabulary", "plain_tokens.vocabulary") == {None, 100, 1000, 5000}
    assert varied("head-size", "reconstruction.head_size") == {48, 72, 96, 144, 192}
    assert varied("weight", "reconstruction.weight") == {None, 1, 0.1}
    assert varied("weight", "reconstruction.reduction") == {None, "sum", "mean"}
    assert varied("weight", "reconstruction.cap") == {None, 1.0, 0.25}
    objective = loaded(f"{scale}-objective").methods
    assert objective["rapt-no-objective"].plain_tokens == objective["rapt"].plain_tokens
    assert objective["rapt-no-objective"].reconstruction is None
    denoised = loaded(f"{scale}-denoise")
    assert denoised.sweep.channels == denoised.sweep.methods
    assert {denoised.denoisers[name].type for name in denoised.sweep.denoisers} == {
        "posterior-mean",
        "posterior-sample",
        "posterior-target",
    }
    prefixes = loaded(f"{scale}-prefix-length").tuners.values()
    assert {tuner.model_dump()["tokens"] for tuner in prefixes} == {10, 40, 100}


def test_an_unknown_preset_is_one_line() -> None:
    with pytest.raises(RaptError, match=r"preset: got 'papper-t5', .* Did you mean 'paper-t5'"):
        presets.text("papper-t5")


def test_presets_are_in_the_project_s_folder(empty: Path) -> None:
    with pytest.raises(RaptError, match="Run in its folder"):
        presets.names()


def test_an_edited_file_is_not_replaced(empty: Path) -> None:
    Path("presets").symlink_to(ROOT / "presets")
    path = Path("params.yaml")
    for name in ("demo", "paper-qu", "study-length"):  # not there; then each a preset as it was
        presets.write(name, overwrite=False)
        assert path.read_text() == presets.text(name)
    edited = path.read_text() + "# mine\n"
    path.write_text(edited)
    with pytest.raises(
        RaptError, match=r"^params.yaml: got one that was edited, .* --overwrite\.$"
    ):
        presets.write("demo", overwrite=False)
    assert path.read_text() == edited
    presets.write("demo", overwrite=True)
    assert path.read_text() == presets.text("demo")
    assert sorted(p.name for p in empty.iterdir()) == ["params.yaml", "presets"]
