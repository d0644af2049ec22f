"""Verdicts on synthetic cells: an effect that was planted, its opposite, and none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.grid import ATTACKED, PlannedCell, is_unprotected, plan
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.claims import LEVELS, Claim, _categories, claims, statements
from rapt.results import reader
from rapt.results.cells import summary
from tests.conftest import ROOT
from tests.reporting import synthetic

# No preset: tests/every_section.yaml.
EVERY = "every"
EVERY_SECTION = (ROOT / "tests/every_section.yaml").read_text(encoding="utf-8")
Level = Callable[[PlannedCell], float]


def by_method(*methods: str) -> Level:
    return lambda cell: float(methods.index(cell.factors["method"]))


def by_eta(cell: PlannedCell) -> float:
    return float(cell.factors["eta"] == "75")


# The claim, the preset whose cells hold it, their kind, and what the effect is planted on.
PLANTED: list[tuple[str, str, str, Level]] = [
    ("pct2t-over-t2t", EVERY, "train", by_method("t2t", "pct2t", "rapt")),
    ("rapt-over-pct2t", EVERY, "train", by_method("t2t", "pct2t", "rapt")),
    ("utility-rises", EVERY, "train", by_eta),
    ("inversion-rises", EVERY, "invert", by_eta),
    ("inference-rises", EVERY, "infer", by_eta),
    ("learned-inversion-rises", "attacks-categories", "invert", by_eta),
    (
        "reconstruction",
        "study-objective",
        "train",
        by_method("pct2t", "rapt-no-objective", "rapt"),
    ),
    (
        "plain-length",
        "study-length",
        "train",
        by_method("pct2t", "rapt-10", "rapt-20", "rapt", "rapt-80"),
    ),
    ("plain-choice", "study-choice", "train", by_method("rapt", "rapt-frequency")),
    (
        "prefix-length",
        "study-prefix-length",
        "train",
        lambda cell: float(["prefix", "prefix-40", "prefix-100"].index(cell.factors["tuner"])),
    ),
    (
        "lora-over-prompt",
        "two-tuners",
        "train",
        lambda cell: float(["prompt", "lora"].index(cell.factors["tuner"])),
    ),
    (
        "words-over-vectors",
        "study-token-representation",
        "train",
        by_method("token-representation", "t2t"),
    ),
    (
        "bayes-over-nearest",
        EVERY,
        "invert",
        lambda cell: float(cell.factors["attack"] == "bayes"),
    ),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    return tmp_path


def plant(preset: str, kind: str, level: Level, effect: float, seeds: int = 5) -> Params:
    """Cells of one kind: a level more is `effect` more, in every metric, with noise of 0.01."""
    yaml = YAML()
    content = yaml.load(EVERY_SECTION if preset in (EVERY, "two-tuners") else presets.text(preset))
    sweep = content["sweep"]
    if preset == "two-tuners":
        sweep["tuners"] = ["prompt", "lora"]
    sweep.update(etas=[50, 75], tune_at=[50, 75] if sweep["train"] else [])
    yaml.dump(content, Path("params.yaml"))
    p = params.load()
    noise = np.random.default_rng(7)
    for cell in plan(p):
        if is_unprotected(cell.factors["eta"]):
            if kind in ATTACKED and cell.kind == kind:
                synthetic.write_cell(cell)  # where every attack is above its baseline
        elif cell.kind == kind:
            write(cell, 0.5 + effect * level(cell) + noise.normal(0, 0.01, seeds))
    return p


def write(cell: PlannedCell, values: Any) -> None:
    of_author = ("accuracy_author", "empirical_privacy_author")
    names = ("accuracy", "accuracy_protected", "empirical_privacy", *of_author)
    seeds = [
        {"seed": k, "metrics": dict.fromkeys(names, float(value)), "curves": {}}
        for k, value in enumerate(values)
    ]
    metrics = {name: summary(list(map(float, values))) for name in names}
    synthetic.write_cell(cell, seeds=seeds, metrics=metrics)


def of(p: Params, name: str) -> Claim:
    return next(claim for claim in claims(reader.load(p)) if claim.name == name)


@pytest.mark.parametrize(
    ("name", "preset", "kind", "level"), PLANTED, ids=[claim[0] for claim in PLANTED]
)
def test_a_planted_effect_is_found_and_its_opposite_is_not(
    name: str, preset: str, kind: str, level: Level, folder: Path
) -> None:
    claim = of(plant(preset, kind, level, 0.05), name)
    steps = {"reconstruction": 1, "plain-length": 3, "prefix-length": 2}.get(name, 1)
    assert claim.verdict == "supported"
    assert claim.effect == pytest.approx(5 * steps, abs=1.5)
    assert claim.low is not None and claim.high is not None
    assert claim.low < claim.effect < claim.high
    assert claim.n == 5
    opposite = of(plant(preset, kind, level, -0.05), name)
    assert opposite.verdict == "not supported"
    assert opposite.effect == pytest.approx(-5 * steps, abs=1.5)


def test_each_statement_names_levels_that_exist() -> None:
    named = {claim.levels for claim in statements().values() if isinstance(claim.levels, str)}
    assert named == {"", *LEVELS}


def test_without_seeds_nothing_is_said(folder: Path) -> None:
    Path("params.yaml").write_text(EVERY_SECTION, encoding="utf-8")
    for claim in claims(reader.load(params.load())):
        assert (claim.verdict, claim.effect, claim.n) == ("not enough data", None, 0)
        assert claim.basis.endswith("no setting has run on both sides")


def test_with_too_few_seeds_the_effect_is_shown_and_nothing_is_said(folder: Path) -> None:
    level = by_method("t2t", "pct2t", "rapt")
    claim = of(plant(EVERY, "train", level, 0.05, tables.FEWEST_SEEDS - 1), "pct2t-over-t2t")
    assert claim.verdict == "not enough data"
    assert claim.effect == pytest.approx(5, abs=1.5) and claim.low is None


def test_settings_are_pooled_within_a_seed(folder: Path) -> None:
    """The effect of a seed is the mean over the settings; a setting with one side counts not."""
    p = plant(EVERY, "train", by_method("t2t", "pct2t", "rapt"), 0.0)
    of_eta = {"50": 0.1, "75": 0.3}
    for cell in plan(p):
        method, eta = cell.factors["method"], cell.factors["eta"]
        if cell.kind == "train" and method in ("t2t", "pct2t") and eta in of_eta:
            more = method == "pct2t"
            write(cell, [0.4 + more * of_eta[eta] + 0.01 * k for k in range(5)])
    claim = of(p, "pct2t-over-t2t")
    assert claim.effect == pytest.approx(20)
    assert "the mean over 2 settings" in claim.basis
    next(c for c in plan(p) if c.cell == "movies-minilm-lora-t2t-75").path.unlink()
    alone = of(p, "pct2t-over-t2t")
    assert alone.effect == pytest.approx(10)
    assert "the mean over 1 setting: movies · minilm · lora · η = 50" in alone.basis


def test_only_seeds_on_both_sides_are_paired(folder: Path) -> None:
    p = plant(EVERY, "train", by_method("t2t", "pct2t", "rapt"), 0.05)
    cell = next(c for c in plan(p) if c.cell == "movies-minilm-lora-t2t-75")
    write(cell, [0.5, 0.5, 0.5])
    assert of(p, "pct2t-over-t2t").n == 3


def test_categories_that_differ_either_way_are_found(folder: Path) -> None:
    name, preset = "categories-differ", "attacks-categories"
    level: Level = lambda cell: float(cell.factors["method"] == "pct2t-verb")  # noqa: E731
    for effect in (0.1, -0.1):
        claim = of(plant(preset, "invert", level, effect), name)
        assert claim.verdict == "supported"
        assert claim.effect == pytest.approx(10, abs=3)
        assert "pct2t-verb" in claim.basis and "the surest of 45 pairs" in claim.basis
    assert of(plant(preset, "invert", level, 0.0), name).verdict == "not supported"


@pytest.mark.parametrize(
    ("name", "preset", "kind"),
    [
        ("inversion-rises", EVERY, "invert"),
        ("bayes-over-nearest", EVERY, "invert"),
        ("inference-rises", EVERY, "infer"),
        ("learned-inversion-rises", "attacks-categories", "invert"),
        ("categories-differ", "attacks-categories", "invert"),
    ],
)
@pytest.mark.parametrize("broken", [True, False], ids=["broken", "unproven"])
def test_an_attack_that_is_not_known_to_work_supports_no_claim(
    name: str, preset: str, kind: str, broken: bool, folder: Path
) -> None:
    def level(cell: PlannedCell) -> float:
        more = (cell.factors["method"] == "pct2t-verb") + (cell.factors["attack"] == "bayes")
        return by_eta(cell) + 2 * more

    p = plant(preset, kind, level, 0.05)
    assert of(p, name).verdict == "supported"
    for cell in plan(p):
        if cell.kind == kind and is_unprotected(cell.factors["eta"]):
            if broken:
                synthetic.break_attack(cell)
            else:
                cell.path.unlink()
    claim = of(p, name)
    assert (claim.verdict, claim.effect) == ("not enough data", None)
    assert claim.basis.endswith(
        "by attacks that work on clean text: no setting has run on both sides"
    )


def test_the_bayesian_attack_of_that_claim_is_fitted_to_the_release(folder: Path) -> None:
    content = YAML().load(EVERY_SECTION)
    public = content["attacks"]["bayes"] | {"prior": "public"}
    content["attacks"] = {"bayes-public": public} | content["attacks"]
    content["sweep"]["channel_inversions"].insert(0, "bayes-public")
    content["sweep"].update(etas=[50], tune_at=[50])
    YAML().dump(content, Path("params.yaml"))
    p = params.load()
    for cell in plan(p):
        if cell.kind == "invert" and is_unprotected(cell.factors["eta"]):
            synthetic.write_cell(cell)
        elif cell.kind == "invert":
            more = {"bayes": 0.05, "bayes-public": -0.2}.get(cell.factors["attack"], 0.0)
            write(cell, 0.5 + more + np.linspace(0, 0.001, 5))
    claim = of(p, "bayes-over-nearest")
    assert (claim.verdict, claim.effect) == ("supported", pytest.approx(5))


def test_a_tuner_at_one_eta_breaks_no_claim(folder: Path) -> None:
    """And three seeds are enough for a verdict."""
    yaml = YAML()
    content = yaml.load(EVERY_SECTION)
    synthetic.tune_at_one(content)
    yaml.dump(content, Path("params.yaml"))
    p = params.load()
    for cell in plan(p):
        if cell.kind == "train":
            more = 0.05 * (cell.factors["method"] == "pct2t") + 0.1 * by_eta(cell)
            write(cell, 0.5 + more + np.linspace(0, 0.01, 3))
    rises, over = of(p, "utility-rises"), of(p, "pct2t-over-t2t")
    assert (rises.verdict, over.verdict) == ("supported", "supported")
    assert "prompt" in rises.basis and "lora" not in rises.basis
    assert "the mean over 3 settings" in over.basis


def test_false_alarms_are_as_rare_as_stated() -> None:
    """Without an effect 2.5 % of claims come out as supported: of 2,000, within five sd."""
    noise = np.random.default_rng(0).normal(size=(2000, 5))
    intervals = [tables.interval(list(values)) for values in noise]
    alarms = sum(found is not None and found[0] > 0 for found in intervals) / len(intervals)
    assert alarms == pytest.approx(0.025, abs=5 * (0.025 * 0.975 / 2000) ** 0.5)


def test_a_claim_without_an_effect_is_rarely_supported(folder: Path) -> None:
    """Every claim of the demo, on cells whose seeds differ by chance alone."""
    p = plant(EVERY, "train", lambda cell: 0.0, 0.0)
    noise = np.random.default_rng(3)
    verdicts = []
    for _ in range(40):
        for cell in plan(p):
            if cell.kind == "train":
                write(cell, 0.5 + noise.normal(0, 0.01, 5))
        verdicts += [claim.verdict for claim in claims(reader.load(p)) if claim.n]
    assert len(verdicts) == 3 * 40
    assert verdicts.count("supported") <= 11  # of 120 at 2.5 %: more in 1 of 10,000 runs


def test_categories_that_do_not_differ_are_rarely_said_to(
    whole: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 5 % for all pairs together: of 120, within five sd of that."""
    noise = np.random.default_rng(5)

    def by_scheme(_: object) -> dict[str, dict[str, dict[int, float]]]:
        return {"a setting": {n: dict(enumerate(noise.normal(0.5, 0.01, 5))) for n in "abcde"}}

    monkeypatch.setattr("rapt.reporting.claims._by_scheme", by_scheme)
    results = reader.load(whole)
    alarms = sum(_categories(results).verdict == "supported" for _ in range(120))
    assert 0 < alarms / 120 <= 0.05 + 5 * (0.05 * 0.95 / 120) ** 0.5
