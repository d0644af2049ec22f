"""Presets: laid together they are valid, complete and commented, and hold what their files say."""

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rapt import params, plan, presets
from rapt.errors import RaptError
from tests.conftest import ROOT

NAMES = [
    "demo",
    "attacks",
    "attacks-categories",
    "attacks-categories-bayes",
    "attacks-language",
    "attributes",
    "entities",
    "layers",
    "membership",
    "paper-llm",
    "paper-nlu-bert",
    "paper-nlu-qwen",
    "paper-qu",
    "paper-t5",
    "sst2-minilm",
    *(
        f"{scale}-{study}"
        for scale in ("study", "paper-study")
        for study in (
            "choice",
            "denoise",
            "head-size",
            "length",
            "objective",
            "prefix-length",
            "sequences",
            "token-representation",
            "vocabulary",
            "weight",
        )
    ),
]
OF_ATTACKS = {"attacks": "invert", "attributes": "infer", "entities": "recognize"}
ETAS = ["25", "75", "125", "150", "175", "inf"]


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def content(text: str) -> Any:
    return YAML(typ="safe").load(text)


def loaded(name: str) -> params.Params:
    return params.validate(content(presets.text(name)))


def sources(name: str) -> list[Path]:
    """The files of a preset, the demo first; said here once more, by the rule and not the code."""
    for scale in ("paper-study", "study"):
        if name.startswith(f"{scale}-"):
            study = name.removeprefix(f"{scale}-")
            return [*sources(scale), ROOT / f"presets/studies/{study}.yaml"]
    path = ROOT / f"presets/{name}.yaml"
    base = content(path.read_text()).get("extends")
    return [*(sources(base) if base else []), path]


def merged(base: Any, over: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(over, dict) and over):
        return over
    out = dict(base)
    for key, value in over.items():
        if key == "extends":
            continue
        like = value.get("extends") if isinstance(value, dict) else None
        out[key] = merged(out[like] if like else out.get(key), value)
    return out


def test_these_are_the_presets() -> None:
    assert presets.names() == NAMES
    assert all(len(presets.summary(name)) < 120 for name in NAMES)


def test_the_shipped_params_are_the_demo() -> None:
    assert (ROOT / "params.yaml").read_text() == presets.text("demo")


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_valid_and_plans(name: str) -> None:
    p = loaded(name)
    cells = plan.plan(p)
    kind = OF_ATTACKS.get(name.split("-")[0], "train")
    assert any(cell.kind == kind for cell in cells)
    assert len(cells) <= 250, "split it: dvc.lock is written anew for every cell"


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_preset_holds_what_its_files_say(name: str) -> None:
    first, *others = (content(path.read_text()) for path in sources(name))
    expected = reduce(merged, others, first)
    found = content(presets.text(name))
    assert list(found) == [key for key in expected if key != "extends"]
    for section, entries in found.items():
        if section in ("tasks", "embeddings", "backbones", "methods", "tuners"):
            assert entries == {entry: expected[section][entry] for entry in entries}
        else:
            assert entries == expected[section]


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_preset_leaves_out_what_nothing_names(name: str) -> None:
    p = loaded(name)
    studies = p.studies.values()
    assert set(p.tasks) == set(p.sweep.tasks)
    assert set(p.embeddings) == set(p.sweep.embeddings)
    assert set(p.backbones) == {*p.sweep.backbones, *(s.backbone for s in studies)}
    assert set(p.tuners) == {*p.sweep.tuners, *(s.tuner for s in studies)}
    assert set(p.methods) == {*p.sweep.methods, *p.sweep.channels, *(s.method for s in studies)}


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_preset_is_commented(name: str) -> None:
    text = presets.text(name)
    lines = text.splitlines()
    own = sources(name)[-1].read_text().splitlines()
    assert {line for line in own if line.lstrip().startswith("#")} <= set(lines)
    assert f"# `rapt preset {name}` wrote this." in lines
    # What no file of the preset touches keeps the demo's comment.
    assert "# What the first gate lets through." in lines
    assert "extends" not in text
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", ["paper-nlu-bert", "paper-nlu-qwen", "paper-t5"])
def test_a_table_of_the_paper_has_216_cells_of_five_seeds(name: str) -> None:
    p = loaded(name)
    assert [cell.kind for cell in plan.plan(p)] == ["train"] * 216
    assert p.seeds == 5


def test_tp_uk_takes_happydb_s_place_where_a_user_has_it() -> None:
    """The block that stands in the preset as a comment, taken in as its comment says."""
    lines = presets.text("paper-nlu-bert").splitlines()
    begin = lines.index("  # tpuk:")
    end = next(
        i for i in range(begin, len(lines)) if not lines[i].startswith("  #   ") and i > begin
    )
    lines[begin:end] = [line.replace("  # ", "  ", 1) for line in lines[begin:end]]
    given = content("\n".join(lines))
    for names in (given["sweep"]["tasks"], given["sweep"]["train"]):
        names[names.index("happydb")] = "tpuk"
    p = params.Params.model_validate(given)
    cells = plan.plan(p)
    assert len(cells) == 216
    assert {cell.factors["task"] for cell in cells} == {"sst2", "qqp", "tpuk"}
    assert set(p.tasks["tpuk"].attributes or {}) == {"gender", "age"}


def test_the_paper_s_settings() -> None:
    p = loaded("paper-nlu-bert")
    assert p.sweep.etas == ETAS
    assert p.train.model_dump() == {
        "epochs": 4, "batch_size": 128, "max_tokens": 128, "warmup": 0, "weight_decay": 0,
        "precision": "float32",
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
        "head_size": 96, "weight": 1, "reduction": "sum",
    }  # fmt: skip
    assert p.methods["pct2t"].plain_tokens is None


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
    assert t5.sweep.etas == ["1", "2", "3", "5", "7", "inf"]
    assert t5.embeddings["t5"].model == t5.backbones["t5"].model
    llm = loaded("paper-llm")
    assert llm.tuners["qlora"].model_dump()["quantize"] == "4bit"
    assert len(plan.plan(llm)) == 2 * 3 * 6
    qu = loaded("paper-qu")
    assert (qu.train.batch_size, qu.train.epochs, qu.train.warmup) == (32, 3, 0.1)
    rates = {
        (
            cell.factors["backbone"],
            cell.factors["task"],
            qu.tuners[cell.factors["tuner"]].learning_rate,
        )
        for cell in plan.plan(qu)
        if "tuner" in cell.factors
    }
    assert rates == {
        ("bert", "sst2", 2e-5),
        ("bert", "qqp", 4e-5),
        ("bilstm", "sst2", 1e-3),
        ("bilstm", "qqp", 1e-3),
    }
    # Two backbones on two tasks; nearest neighbour against both methods, Bayes against t2t.
    assert len(plan.plan(qu)) == 2 * 2 * 2 * 7 + 2 * 2 * 7 + 2 * 7
    assert qu.backbones["bilstm"].model == qu.backbones["bert"].model
    mine = loaded("sst2-minilm")
    assert mine.sweep.etas[-1] == "inf"
    assert len(mine.sweep.etas) == 4
    assert mine.seeds == 5


@pytest.mark.parametrize("scale", ["study", "paper-study"])
def test_each_study_varies_one_thing(scale: str) -> None:
    def varied(study: str, key: str) -> set[Any]:
        methods = loaded(f"{scale}-{study}").methods.values()
        dumps = [m.model_dump() for m in methods]
        section, _, name = key.partition(".")
        return {d[section][name] if d[section] else None for d in dumps}

    assert varied("length", "plain_tokens.length") == {None, 10, 20, 40, 80}
    assert varied("sequences", "plain_tokens.sequences") == {1, 2, 5, 20}
    assert varied("choice", "plain_tokens.choice") == {"uniform", "frequency"}
    assert varied("vocabulary", "plain_tokens.vocabulary") == {None, 100, 1000, 5000}
    assert varied("head-size", "reconstruction.head_size") == {24, 48, 96, 192, 384}
    assert varied("weight", "reconstruction.weight") == {1, 0.1, 0.01}
    assert varied("weight", "reconstruction.reduction") == {"sum", "mean"}
    objective = loaded(f"{scale}-objective").methods
    assert objective["rapt-no-objective"].plain_tokens == objective["rapt"].plain_tokens
    assert objective["rapt-no-objective"].reconstruction is None
    denoised = loaded(f"{scale}-denoise")
    assert denoised.sweep.channels == denoised.sweep.methods
    assert {denoised.denoisers[name].type for name in denoised.sweep.denoisers} == {
        "posterior-mean",
        "posterior-sample",
    }
    prefixes = loaded(f"{scale}-prefix-length").tuners.values()
    assert {tuner.model_dump()["tokens"] for tuner in prefixes} == {10, 40, 100}


def test_what_is_laid_over_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("presets/studies").mkdir(parents=True)
    lists = "".join(f"  {name}:\n    - a\n" for name in ("tasks", "embeddings", "backbones"))
    Path("presets/demo.yaml").write_text(
        "# A demo.\n# For all.\n\n# The grid.\nsweep:\n"
        f"{lists}  tuners:\n    - a\n  channels: []\n  # Ways.\n  methods:\n"
        "    # First.\n    - one\n"
        "studies: {}\n\n# Sections.\ntasks:\n  a: 1\nembeddings:\n  a: 1\nbackbones:\n  a: 1\n"
        "tuners:\n  a: 1\nmethods:\n  # The one.\n  one:\n    # Its x.\n    x: 1\n    # Its y.\n"
        "    y: null\n  # Another.\n  two:\n    x: 2\n"
    )
    Path("presets/mine.yaml").write_text(
        "# Mine.\n\nextends: demo\n\nsweep:\n  methods:\n    - one\n    - three\n\n"
        "methods:\n  one:\n    # A mapping.\n    y:\n      z: 3\n"
        "  # Of one.\n  three:\n    extends: one\n    x: 4\n"
    )
    assert presets.text("mine") == (
        "# Mine.\n#\n# `rapt preset mine` wrote this.\n# For all.\n\n# The grid.\nsweep:\n"
        f"{lists}  tuners:\n    - a\n  channels: []\n  # Ways.\n  methods:\n    - one\n"
        "    - three\nstudies: {}\n\n# Sections.\ntasks:\n  a: 1\nembeddings:\n  a: 1\n"
        "backbones:\n  a: 1\ntuners:\n  a: 1\nmethods:\n  # The one.\n  one:\n"
        "    # Its x.\n    x: 1\n    # A mapping.\n    y:\n      z: 3\n"
        "  # Of one.\n  three:\n    x: 4\n    y:\n      z: 3\n"
    )


def test_an_unknown_preset_is_one_line() -> None:
    with pytest.raises(RaptError, match=r"preset: 'papper-t5' given, .* did you mean 'paper-t5'"):
        presets.text("papper-t5")


def test_presets_are_in_the_project_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RaptError, match="run in the project's folder"):
        presets.names()


def test_an_edited_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "presets").symlink_to(ROOT / "presets")
    monkeypatch.chdir(tmp_path)
    path = Path("params.yaml")
    for name in ("demo", "paper-qu", "study-length"):  # not there; then each a preset as it was
        presets.write(name, overwrite=False)
        assert path.read_text() == presets.text(name)
    edited = path.read_text().replace("seed: 0", "seed: 1")
    path.write_text(edited)
    with pytest.raises(RaptError, match=r"^params.yaml: edited, .* --overwrite$"):
        presets.write("demo", overwrite=False)
    assert path.read_text() == edited
    presets.write("demo", overwrite=True)
    assert path.read_text() == presets.text("demo")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["params.yaml", "presets"]
