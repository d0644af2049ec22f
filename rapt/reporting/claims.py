"""The papers' claims, tested on the cells.

Every effect is paired over the seeds, which the cells share. For each seed it is the mean
difference over all settings that have run on both sides, with Student's interval over the seeds.
Without an effect a claim is found supported in 2.5 % of experiments. For the claim that categories
differ, which tests every pair of them, it is at most 5 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import permutations
from math import inf
from statistics import fmean
from typing import Any, Literal, NamedTuple

from ruamel.yaml import YAML

from rapt.grid import ATTACKED, UNPROTECTED_ETA, is_unprotected, order
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.text import count
from rapt.results.reader import Cell, Results

Verdict = Literal["supported", "not supported", "not enough data"]
POINTS = "percentage points"
# Settings of an effect that are listed; further ones are only counted.
LISTED = 6
FALSE_ALARMS = 0.05


@dataclass(frozen=True)
class Claim:
    """A claim and its test on the cells.

    Attributes:
        name: for files and anchors.
        sentence: the claim as a testable statement.
        source: the paper, and the place of its numbers.
        effect: the mean over the seeds, in `unit`; None without seeds.
        low: lower end of its 95 % confidence interval; None with too few seeds.
        high: upper end of the interval.
        n: number of seeds, over which the effect is paired.
        unit: of effect, low and high.
        verdict: supported if the whole interval is above 0.
        basis: definition of the effect, and the settings it is averaged over.
    """

    name: str
    sentence: str
    source: str
    effect: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    verdict: Verdict
    basis: str


@dataclass(frozen=True)
class Statement:
    """An entry of published/claims.yaml: one side of a comparison is above the other.

    Attributes:
        name: for files and anchors.
        sentence: the claim as a testable statement.
        source: the paper, and the place of its numbers.
        effect: definition of the effect.
        varied: the factor in which the two sides differ.
        levels: the level of each value of this factor, or of each type of tuner; or a function of
            LEVELS. The highest level that ran is compared with the lowest.
        kinds: kinds of the compared cells.
        methods: the methods that count; none: all.
        attacks: the types of attacks that count; none: all.
        metric: the compared metric; with a trailing `_`, every metric with this prefix.
        unprotected: whether cells on clean text count.
    """

    name: str
    sentence: str
    source: str
    effect: str
    varied: str = ""
    levels: Mapping[str, float] | str = ""
    kinds: Sequence[str] = ("train", "study")
    methods: Sequence[str] = ()
    attacks: Sequence[str] = ()
    metric: str = "accuracy"
    unprotected: bool = False


class Pair(NamedTuple):
    """One setting in which both sides of a claim have run: seed → metric."""

    setting: str
    more: dict[int, float]
    less: dict[int, float]


@cache
def statements() -> dict[str, Statement]:
    """Return the papers' claims by name, RAPT's first."""
    path = files("rapt.reporting").joinpath("published", "claims.yaml")
    entries = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return {entry["name"]: Statement(**entry) for entry in entries}


def claims(results: Results) -> list[Claim]:
    """Test every claim that cells of this project can support."""
    sound = tables.sound(results)
    return [
        _test(claim, claim.effect, _pairs(results, claim, sound))
        if claim.levels
        else _categories(results)
        for claim in statements().values()
    ]


def _test(claim: Statement, effect: str, pairs: Sequence[Pair], confidence: float = 0.95) -> Claim:
    """Test a claim that one side is above the other; `effect` is its definition."""
    every = [seeds for pair in pairs for seeds in (set(pair.more), set(pair.less))]
    shared = sorted(set.intersection(*every)) if every else []
    values = [100 * fmean(pair.more[k] - pair.less[k] for pair in pairs) for k in shared]
    low, high = tables.interval(values, confidence) or (None, None)
    verdict: Verdict = "not enough data"
    if low is not None:
        verdict = "supported" if low > 0 else "not supported"
    return Claim(
        name=claim.name,
        sentence=claim.sentence,
        source=claim.source,
        effect=fmean(values) if values else None,
        low=low,
        high=high,
        n=len(values),
        unit=POINTS,
        verdict=verdict,
        basis=_basis(effect, [pair.setting for pair in pairs]),
    )


def _basis(effect: str, settings: Sequence[str]) -> str:
    if not settings:
        return f"{effect}: no setting has run on both sides"
    more = f", and {len(settings) - LISTED} more" if len(settings) > LISTED else ""
    over = f"in the mean over {count(len(settings), 'setting')}"
    return f"{effect}, {over}: {'; '.join(settings[:LISTED])}{more}"


def _pairs(results: Results, claim: Statement, sound: set[tuple[str, str]]) -> list[Pair]:
    """Pair the cell of the highest level with that of the lowest, other factors being equal.

    Args:
        results: the results with the cells.
        claim: what is compared.
        sound: cells and metrics of the attacks that work on clean text; others do not count.
    """
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, Cell]]] = {}
    for cell in _cells(results, claim):
        level = _level(results.params, claim, cell.factors[claim.varied])
        if level is not None:
            varied = (claim.varied, "study")
            kept = sorted((k, v) for k, v in cell.factors.items() if k not in varied)
            groups.setdefault(tuple(kept), []).append((level, cell))
    pairs = []
    for group in groups.values():
        (least, less), (most, more) = (
            end(group, key=lambda ranked: ranked[0]) for end in (min, max)
        )
        if least < most:
            pairs += [
                Pair(_setting(more, less, claim.varied), more.by_seed(name), less.by_seed(name))
                for name in _metrics(more, claim.metric)
                if more.plan.kind not in ATTACKED
                or {(more.plan.cell, name), (less.plan.cell, name)} <= sound
            ]
    return pairs


def _cells(results: Results, claim: Statement) -> list[Cell]:
    """Return the cells that have run and that a claim is about."""
    types = results.params.attacks
    return [
        cell
        for kind in claim.kinds
        for cell in results.of(kind)
        if cell.content
        and (claim.unprotected or not is_unprotected(cell.factors["eta"]))
        and (not claim.methods or cell.factors["method"] in claim.methods)
        and (not claim.attacks or types[cell.factors["attack"]].type in claim.attacks)
    ]


def _metrics(cell: Cell, metric: str) -> list[str]:
    if not metric.endswith("_"):
        return [metric]
    names = cell.content.metrics if cell.content else ()
    return [name for name in names if name.startswith(metric)]


def _setting(more: Cell, less: Cell, varied: str) -> str:
    """Describe a pair of cells: their shared factors, and the one in which they differ."""
    names = ("attack", "task", "backbone", "tuner", "method", "eta")
    shared = [
        f"η = {more.factors[n]}" if n == "eta" else more.factors[n]
        for n in names
        if n in more.factors and n != varied and more.factors[n] != UNPROTECTED_ETA
    ]
    return " · ".join([*shared, f"{more.factors[varied]} against {less.factors[varied]}"])


def _categories(results: Results) -> Claim:
    """Test that categories differ in either direction, by the pair with the clearest effect."""
    claim = statements()["categories-differ"]
    settings = _by_scheme(results)
    schemes = sorted(set.intersection(*map(set, settings.values()))) if settings else []
    pairs = list(permutations(schemes, 2))
    judged = []
    for more, less in pairs:
        own = [Pair(setting, by[more], by[less]) for setting, by in settings.items()]
        effect = (
            f"protected words recovered with {more} minus {less}, by attacks that work on clean "
            f"text, the surest of {len(pairs) // 2} pairs (one interval for all of them)"
        )
        confidence = 1 - FALSE_ALARMS / (len(pairs) / 2)
        judged.append(_test(claim, effect, own, confidence))
    none = _test(claim, claim.effect, [])
    return max(judged, key=lambda c: (-inf if c.low is None else c.low, c.effect), default=none)


def _by_scheme(results: Results) -> dict[str, dict[str, dict[int, float]]]:
    """Return setting → method with categories → seed → share that nearest neighbour recovers."""
    params, found = results.params, dict[str, dict[str, dict[int, float]]]()
    sound = tables.sound(results)
    for cell in results.of("invert"):
        attack, task, method, eta = (cell.factors[n] for n in ("attack", "task", "method", "eta"))
        scheme = params.method(method)
        if (
            cell.content
            and params.attacks[attack].type == "nearest-neighbour"
            and (cell.plan.cell, "accuracy_protected") in sound
            and scheme.categories
            and not scheme.plain_tokens
        ):
            by = found.setdefault(f"{attack} · {task} · η = {eta}", {})
            by[method] = cell.by_seed("accuracy_protected")
    return {setting: by for setting, by in found.items() if len(by) > 1}


def _level(params: Params, claim: Statement, value: str) -> float | None:
    """Return the level of a value of the varied factor; None: it is not part of the claim."""
    if isinstance(claim.levels, str):
        return LEVELS[claim.levels](params, value)
    return claim.levels.get(params.tuners[value].type if claim.varied == "tuner" else value)


def _eta(params: Params, eta: str) -> float:
    return order(eta)


def _knowledge(params: Params, attack: str) -> float | None:
    """Return 0 for the nearest neighbour, and 1 for the Bayesian attack on one release."""
    how = params.attacks[attack]
    if how.type == "nearest-neighbour":
        return 0.0
    fitted = how.type == "bayesian" and how.prior == "release" and not how.given
    return 1.0 if fitted else None


def _prefix_length(params: Params, tuner: str) -> float | None:
    """Return the length of a prefix that is tuned with the first one's learning rate."""
    prefixes = {name: t for name, t in params.tuners.items() if t.type == "prefix-tuning"}
    if tuner not in prefixes:
        return None
    first, own = next(iter(prefixes.values())), prefixes[tuner]
    return float(own.tokens) if own.learning_rate == first.learning_rate else None


def _reconstruction(params: Params, method: str) -> float | None:
    knobs = _knob(params, method, "reconstruction")
    if knobs is None:
        return None
    own, of_rapt = knobs
    if own is None:
        return 0.0
    return 1.0 if own == of_rapt else None


def _plain_length(params: Params, method: str) -> float | None:
    knobs = _knob(params, method, "plain_tokens", "length")
    return float(knobs[0]) if knobs else None


def _plain_choice(params: Params, method: str) -> float | None:
    knobs = _knob(params, method, "plain_tokens", "choice")
    return {"uniform": 0.0, "frequency": 1.0}[knobs[0]] if knobs else None


def _knob(params: Params, method: str, *path: str) -> tuple[Any, Any] | None:
    """Return a method's value of one knob and rapt's; None: they differ in another one, too."""
    if "rapt" not in params.methods:
        return None
    content, like = (params.methods[name].model_dump() for name in (method, "rapt"))
    own, of_rapt = _pop(content, path), _pop(like, path)
    return (own, of_rapt) if content == like else None


def _pop(content: dict[str, Any], path: Sequence[str]) -> Any:
    """Remove a knob from a method's content and return its value."""
    *outer, last = path
    for key in outer:
        content = content[key] or {}
    return content.pop(last, None)


LEVELS: dict[str, Callable[[Params, str], float | None]] = {
    "eta": _eta,
    "knowledge": _knowledge,
    "prefix-length": _prefix_length,
    "reconstruction": _reconstruction,
    "plain-length": _plain_length,
    "plain-choice": _plain_choice,
}
