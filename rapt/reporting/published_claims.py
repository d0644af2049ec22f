"""The papers' claims, and the cells of this project that each one compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML

from rapt.grid import ATTACKED, UNPROTECTED_ETA, is_unprotected, privacy_rank
from rapt.param_types import level
from rapt.params import Params
from rapt.reporting.comparisons import Pair
from rapt.results.reader import ReadCell, Results


@dataclass(frozen=True)
class PublishedStatement:
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


@cache
def statements() -> dict[str, PublishedStatement]:
    """Return the papers' claims by name, RAPT's first."""
    path = files("rapt.reporting").joinpath("published", "claims.yaml")
    entries = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return {entry["name"]: PublishedStatement(**entry) for entry in entries}


def pairs(results: Results, claim: PublishedStatement, sound: set[tuple[str, str]]) -> list[Pair]:
    """Pair the cell of the highest level with that of the lowest, other factors being equal.

    Args:
        results: the cells.
        claim: the claim, which names levels.
        sound: of attacks the cells and metrics that count.
    """
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, ReadCell]]] = {}
    for cell in _cells(results, claim):
        level = _level(results.params, claim, cell.factors[claim.varied])
        if level is not None:
            varied = (claim.varied, "study")
            kept = sorted((k, v) for k, v in cell.factors.items() if k not in varied)
            groups.setdefault(tuple(kept), []).append((level, cell))
    found = []
    for group in groups.values():
        (least, less), (most, more) = (
            end(group, key=lambda ranked: ranked[0]) for end in (min, max)
        )
        if least < most:
            found += [
                Pair(_setting(more, less, claim.varied), more, less, name)
                for name in _metrics(more, claim.metric)
                if more.plan.kind not in ATTACKED
                or {(more.plan.cell, name), (less.plan.cell, name)} <= sound
            ]
    return found


def _cells(results: Results, claim: PublishedStatement) -> list[ReadCell]:
    """Return the cells that have run and that a claim is about: none is about synthetic texts."""
    types, synthesizers = results.params.attacks, results.params.synthesizers
    return [
        cell
        for kind in claim.kinds
        for cell in results.of(kind)
        if cell.content
        and cell.factors["method"] not in synthesizers
        and (claim.unprotected or not is_unprotected(cell.factors["eta"]))
        and (not claim.methods or cell.factors["method"] in claim.methods)
        and (not claim.attacks or types[cell.factors["attack"]].type in claim.attacks)
    ]


def _metrics(cell: ReadCell, metric: str) -> list[str]:
    if not metric.endswith("_"):
        return [metric]
    names = cell.content.metrics if cell.content else ()
    return [name for name in names if name.startswith(metric)]


def _setting(more: ReadCell, less: ReadCell, varied: str) -> str:
    """Describe a pair of cells: their shared factors, and the one in which they differ."""
    names = ("attack", "task", "backbone", "tuner", "method", "eta")
    shared = [
        f"η = {more.factors[n]}" if n == "eta" else more.factors[n]
        for n in names
        if n in more.factors and n != varied and more.factors[n] != UNPROTECTED_ETA
    ]
    return " · ".join([*shared, f"{more.factors[varied]} against {less.factors[varied]}"])


def by_scheme(results: Results, sound: set[tuple[str, str]]) -> dict[str, dict[str, ReadCell]]:
    """Return setting → method with categories → attack of the claim that categories differ."""
    claim = statements()["categories-differ"]
    found: dict[str, dict[str, ReadCell]] = {}
    for cell in _cells(results, claim):
        attack, task, method, eta = (cell.factors[n] for n in ("attack", "task", "method", "eta"))
        scheme = results.params.method(method)
        known = (cell.plan.cell, claim.metric) in sound
        if known and scheme.categories and not scheme.plain_tokens:
            found.setdefault(f"{attack} · {task} · η = {eta}", {})[method] = cell
    return {setting: by for setting, by in found.items() if len(by) > 1}


def _level(params: Params, claim: PublishedStatement, value: str) -> float | None:
    """Return the level of a value of the varied factor; None: it is not part of the claim."""
    if isinstance(claim.levels, str):
        return LEVELS[claim.levels](params, value)
    return claim.levels.get(params.tuners[value].type if claim.varied == "tuner" else value)


def _knowledge(params: Params, attack: str) -> float | None:
    """Return 0 for the nearest neighbour, and 1 for the Bayesian attack on one release."""
    if params.attacks[attack].type == "nearest-neighbour":
        return 0.0
    return 1.0 if _fitted(params, attack) else None


def _context(params: Params, attack: str) -> float | None:
    """Return 0 for the Bayesian attack on one release, and a place for those that read context."""
    if _fitted(params, attack):
        return 0.0
    reads = params.attacks[attack].type in ("bayesian-in-context", "trained-reconstruction")
    return 1.0 + list(params.attacks).index(attack) if reads else None


def _fitted(params: Params, attack: str) -> bool:
    how = params.attacks[attack]
    return how.type == "bayesian" and how.prior == "release" and not how.given


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
    # Levels are of other measures, and stand before or after numbers.
    "eta": lambda params, eta: privacy_rank(eta) if level(eta) is None else None,
    "knowledge": _knowledge,
    "context": _context,
    "prefix-length": _prefix_length,
    "reconstruction": _reconstruction,
    "plain-length": lambda params, method: _plain(params, method, "length"),
    "plain-choice": lambda params, method: {"uniform": 0.0, "frequency": 1.0}.get(
        _plain(params, method, "choice")
    ),
}
