"""The papers' claims, tested on the cells.

Every effect is paired over the seeds, which the cells share. For each seed it is the mean
difference over all settings that have run on both sides, with Student's interval over the seeds.
Without an effect a claim is found supported in 2.5 % of experiments. For the claim that categories
differ, which tests every pair of them, it is at most 5 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import permutations
from math import inf
from statistics import fmean
from typing import Any, Literal, NamedTuple

from ruamel.yaml import YAML

from rapt.grid import ATTACKED, UNPROTECTED_ETA, is_unprotected
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
    """A statement with the result of its test.

    Attributes:
        name: as in `Statement`, like `sentence` and `source`.
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
        _test(claim, _pairs(results, claim, sound)) if claim.levels else _categories(results)
        for claim in statements().values()
    ]


def _test(claim: Statement, pairs: Sequence[Pair], confidence: float = 0.95) -> Claim:
    sides = [set(side) for pair in pairs for side in (pair.more, pair.less)]
    shared = sorted(set.intersection(*sides)) if sides else []
    values = [100 * fmean(pair.more[k] - pair.less[k] for pair in pairs) for k in shared]
    low, high = tables.interval(values, confidence) or (None, None)
    verdict: Verdict = "not enough data"
    if low is not None:
        verdict = "supported" if low > 0 else "not supported"
    effect = fmean(values) if values else None
    basis = _basis(claim.effect, [pair.setting for pair in pairs])
    named = (claim.name, claim.sentence, claim.source)
    return Claim(*named, effect, low, high, len(values), POINTS, verdict, basis)


def _basis(effect: str, settings: Sequence[str]) -> str:
    if not settings:
        return f"{effect}: no setting has run on both sides"
    more = f", and {len(settings) - LISTED} more" if len(settings) > LISTED else ""
    over = f"in the mean over {count(len(settings), 'setting')}"
    return f"{effect}, {over}: {'; '.join(settings[:LISTED])}{more}"


def _pairs(results: Results, claim: Statement, sound: set[tuple[str, str]]) -> list[Pair]:
    """Pair the cell of the highest level with that of the lowest, other factors being equal.

    Of attacks only the `sound` cells and metrics count.
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
    pairs = len(schemes) * (len(schemes) - 1) // 2
    tested = []
    for more, less in permutations(schemes, 2):
        effect = (
            f"protected words recovered with {more} minus {less}, by attacks that work on clean "
            f"text, the surest of {pairs} pairs (one interval for all of them)"
        )
        own = [Pair(setting, by[more], by[less]) for setting, by in settings.items()]
        tested.append(_test(replace(claim, effect=effect), own, 1 - FALSE_ALARMS / pairs))
    clearest = max(tested, key=lambda c: (-inf if c.low is None else c.low, c.effect), default=None)
    return clearest or _test(claim, [])


def _by_scheme(results: Results) -> dict[str, dict[str, dict[int, float]]]:
    """Return setting → method with categories → seed → share that nearest neighbour recovers."""
    claim, sound = statements()["categories-differ"], tables.sound(results)
    found: dict[str, dict[str, dict[int, float]]] = {}
    for cell in _cells(results, claim):
        attack, task, method, eta = (cell.factors[n] for n in ("attack", "task", "method", "eta"))
        scheme = results.params.method(method)
        known = (cell.plan.cell, claim.metric) in sound
        if known and scheme.categories and not scheme.plain_tokens:
            by = found.setdefault(f"{attack} · {task} · η = {eta}", {})
            by[method] = cell.by_seed(claim.metric)
    return {setting: by for setting, by in found.items() if len(by) > 1}


def _level(params: Params, claim: Statement, value: str) -> float | None:
    """Return the level of a value of the varied factor; None: it is not part of the claim."""
    if isinstance(claim.levels, str):
        return LEVELS[claim.levels](params, value)
    return claim.levels.get(params.tuners[value].type if claim.varied == "tuner" else value)


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
    """Return 1 for rapt, and 0 for the same method without the reconstruction."""
    own, rapt = params.methods[method], params.methods.get("rapt")
    if rapt is None or own.reconstruction not in (None, rapt.reconstruction):
        return None
    same = own.model_copy(update={"reconstruction": rapt.reconstruction}) == rapt
    return float(own.reconstruction is not None) if same else None


def _plain(params: Params, method: str, key: str) -> Any:
    """Return a setting of a method's plain tokens; None: it differs from rapt in others, too."""
    own, rapt = params.methods[method], params.methods.get("rapt")
    if not (rapt and rapt.plain_tokens and own.plain_tokens):
        return None
    tokens = own.plain_tokens.model_copy(update={key: getattr(rapt.plain_tokens, key)})
    same = own.model_copy(update={"plain_tokens": tokens}) == rapt
    return getattr(own.plain_tokens, key) if same else None


LEVELS: dict[str, Callable[[Params, str], float | None]] = {
    "eta": lambda params, eta: float(eta),
    "knowledge": _knowledge,
    "prefix-length": _prefix_length,
    "reconstruction": _reconstruction,
    "plain-length": lambda params, method: _plain(params, method, "length"),
    "plain-choice": lambda params, method: {"uniform": 0.0, "frequency": 1.0}.get(
        _plain(params, method, "choice")
    ),
}
