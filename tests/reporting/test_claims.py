"""Verdicts on synthetic cells: an effect that was planted, its opposite, and none."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt import params
from rapt.analysis.effects import Effect, over_seeds, over_texts
from rapt.grid import PlannedCell, is_unprotected, plan
from rapt.reporting.claims import MARGIN, Verdict, _categories, claims, judge
from rapt.results import reader
from tests.reporting import synthetic
from tests.reporting.planted import (
    EVERY,
    EVERY_SECTION,
    Level,
    by,
    by_eta,
    by_method,
    keep,
    of,
    plant,
)

# The claim, the preset whose cells hold it, their kind, and what the effect is planted on.
LISTED = by_method("t2t", "pct2t", "rapt")
LENGTHS = by_method("pct2t", "rapt-5", "rapt-20", "rapt", "rapt-80")
PREFIXES = by("tuner", "prefix", "prefix-40", "prefix-100")
PLANTED: list[tuple[str, str, str, Level]] = [
    ("pct2t-over-t2t", EVERY, "train", LISTED),
    ("rapt-over-pct2t", EVERY, "train", LISTED),
    ("utility-rises", EVERY, "train", by_eta),
    ("inversion-rises", EVERY, "invert", by_eta),
    ("inference-rises", EVERY, "infer", by_eta),
    ("learned-inversion-rises", "attacks-categories", "invert", by_eta),
    ("reconstruction", "study-objective", "train", by_method("pct2t", "rapt-no-objective", "rapt")),
    ("plain-length", "study-length", "train", LENGTHS),
    ("plain-choice", "study-choice", "train", by_method("rapt", "rapt-frequency")),
    ("prefix-length", "study-prefix-length", "train", PREFIXES),
    ("lora-over-prompt", "two-tuners", "train", by("tuner", "prompt", "lora")),
    (
        *("words-over-vectors", "study-token-representation", "train"),
        by_method("token-representation", "t2t"),
    ),
    ("bayes-over-nearest", EVERY, "invert", by("attack", "nearest", "bayes")),
    ("context-over-words", "attacks-context", "invert", by("attack", "bayes", "trained-same")),
]


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
    assert claim.low is not None and claim.high is not None and claim.effect is not None
    assert claim.low < claim.effect < claim.high
    assert claim.n == 5
    opposite = of(plant(preset, kind, level, -0.05), name)
    assert opposite.verdict == "refuted"
    assert opposite.effect == pytest.approx(-5 * steps, abs=1.5)


def test_without_seeds_nothing_is_said(folder: Path) -> None:
    Path("params.yaml").write_text(EVERY_SECTION, encoding="utf-8")
    for claim in claims(reader.load(params.load())):
        assert (claim.verdict, claim.effect, claim.n) == ("undecided", None, 0)
        assert claim.basis.endswith("no setting has run on both sides")


def test_two_seeds_decide_where_the_scores_of_texts_are_kept(folder: Path) -> None:
    """Without them the effect is shown, and nothing is said."""
    p = plant(EVERY, "train", LISTED, 0.1, 2)
    claim = of(p, "pct2t-over-t2t")
    assert (claim.verdict, claim.n, claim.texts, claim.low) == ("undecided", 2, None, None)
    assert claim.effect == pytest.approx(10, abs=2)
    rng, shares = np.random.default_rng(0), {"t2t": 0.5, "pct2t": 0.7, "rapt": 0.5}
    for seeds in (2, 1):
        for cell in plan(p):
            if cell.kind == "train" and cell.factors["method"] in shares:
                keep(cell, rng.random((seeds, 400)) < shares[cell.factors["method"]])
        claim, opposite = of(p, "pct2t-over-t2t"), of(p, "rapt-over-pct2t")
        assert (claim.verdict, opposite.verdict) == ("supported", "refuted")
        assert (claim.n, claim.texts) == (seeds, 400)
        assert claim.effect == pytest.approx(20, abs=8)


def test_categories_that_differ_either_way_are_found(folder: Path) -> None:
    name, preset = "categories-differ", "attacks-categories"
    level = by("method", "pct2t", "pct2t-verb")
    for effect in (0.1, -0.1):
        claim = of(plant(preset, "invert", level, effect), name)
        assert claim.verdict == "supported"
        assert claim.effect == pytest.approx(10, abs=3)
        assert "pct2t-verb" in claim.basis and "the surest of 45 pairs" in claim.basis
    assert of(plant(preset, "invert", level, 0.0), name).verdict == "undecided"


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
    assert (claim.verdict, claim.effect) == ("undecided", None)
    assert claim.basis.endswith(": no setting has run on both sides")


def test_categories_that_are_alike_are_refuted(folder: Path) -> None:
    """Every pair of them differs by less than a point: on 100 seeds whose sd is one point."""
    p = plant("attacks-categories", "invert", lambda cell: 0.0, 0.0, 100)
    assert of(p, "categories-differ").verdict == "refuted"


def test_categories_that_do_not_differ_are_rarely_said_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All ten pairs of five together: at most 2.5 % of 120, at 1e-6."""
    noise = np.random.default_rng(5)

    def by_scheme(*_: object) -> dict[str, dict[str, SimpleNamespace]]:
        """Nearest neighbour against five methods, whose five seeds differ by chance."""
        seeds = {name: dict(enumerate(noise.normal(0.5, 0.01, 5))) for name in "abcde"}
        return {"a setting": {name: cell(of) for name, of in seeds.items()}}

    def cell(of: dict[int, float]) -> SimpleNamespace:
        return SimpleNamespace(
            by_seed=lambda metric: of, predictions={}, plan=SimpleNamespace(kind="train")
        )

    monkeypatch.setattr("rapt.reporting.claims.by_scheme", by_scheme)
    Path("params.yaml").write_text(EVERY_SECTION, encoding="utf-8")
    results = reader.load(params.load())
    alarms = sum(_categories(results, set()).p_supported <= 0.025 for _ in range(120))
    assert binomtest(alarms, 120, 0.025, alternative="greater").pvalue > 1e-6


def alone(effect: Effect) -> tuple[float, float, float]:
    """Test an effect by itself, as `judge` takes it."""
    return 100 * effect.mean, effect.above(0), effect.below(MARGIN / 100)


@pytest.mark.parametrize(
    ("mean", "reach", "verdict"),
    [
        (-6.6, 0.5, "refuted"),
        (0.0, 0.5, "refuted"),  # no difference beyond the margin
        (0.5, 0.3, "refuted"),  # a sure gain, which is too small
        (0.6, 0.5, "undecided"),  # likewise, and not surely too small
        (0.5, 2.0, "undecided"),
        (-0.5, 2.0, "undecided"),
        (1.5, 1.0, "supported"),
        (6.6, 0.5, "supported"),
    ],
)
def test_a_verdict_is_by_the_whole_interval(mean: float, reach: float, verdict: str) -> None:
    effect = Effect(mean / 100, [((reach / 196) ** 2, 10**6)])
    assert judge([alone(effect)])[0][0] == verdict


def test_among_many_claims_a_verdict_takes_more() -> None:
    likely, sure, open_ = (2.0, 0.01, 0.9), (2.0, 1e-6, 1.0), (0.0, 0.5, 0.5)
    assert [said for said, *_ in judge([likely, sure])] == ["supported", "supported"]
    assert [said for said, *_ in judge([likely, *[open_] * 5])] == ["undecided"] * 6
    assert judge([]) == []


def families(more: float, of_all: bool, count: int = 400) -> list[list[Verdict]]:
    """Judge families of four claims on kept scores, and four on five seeds alone.

    The last of the four on scores, or all claims, have an effect. Each text is easy or hard for
    both sides. A side has three seeds, whose accuracy has a sd of two points.
    """
    rng, found = np.random.default_rng(0), []
    for _ in range(count):
        ease, effects = rng.uniform(0.3, 0.7, 400), []
        for settings in (1, 1, 2, 4):
            own = more if of_all or settings == 4 else 0.0
            chance = ease + rng.normal(0, 0.02, (2, settings, 3, 1)).clip(-0.1, 0.1)
            chance[0] += own
            right = rng.random(chance.shape) < chance
            effects.append(over_texts([right[0].astype(np.float64) - right[1]]))
        effects += map(over_seeds, rng.normal(more if of_all else 0.0, 0.02, (4, 5)))
        judged = judge([alone(effect) for effect in effects])
        found.append([verdict for verdict, *_ in judged])
    return found


@pytest.mark.parametrize(("verdict", "more"), [("supported", 0.0), ("refuted", MARGIN / 100)])
def test_any_false_verdict_is_as_rare_as_the_page_says(verdict: str, more: float) -> None:
    """At most 2.5 % of 400 families, at 1e-6; and more than none, as on seeds alone it is exact."""
    alarms = sum(verdict in said for said in families(more, of_all=True))
    assert alarms > 0
    assert binomtest(alarms, 400, 0.025, alternative="greater").pvalue > 1e-6


@pytest.mark.parametrize(("verdict", "more"), [("supported", 0.12), ("refuted", -0.12)])
def test_a_planted_effect_of_twelve_points_is_found(verdict: str, more: float) -> None:
    """Among seven claims without any, from four settings of 400 texts and three seeds."""
    assert sum(said[3] == verdict for said in families(more, of_all=False, count=50)) >= 45
