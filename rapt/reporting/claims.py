"""The papers' claims, tested on the cells.

Every effect is paired over the seeds, which the cells share. For each seed it is the mean
difference over all settings that have run on both sides, with Student's interval over the seeds.
Without an effect a claim is found supported in 2.5 % of experiments. For the claim that categories
differ, which tests every pair of them, it is at most 5 %.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf
from statistics import fmean
from typing import Any, Literal, NamedTuple

from rapt.grid import UNPROTECTED_ETA, is_unprotected
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.text import count
from rapt.results.reader import Cell, Results

Verdict = Literal["supported", "not supported", "not enough data"]
POINTS = "percentage points"
# Settings of an effect that are listed; further ones are only counted.
LISTED = 6
FALSE_ALARMS = 0.05
WORKS = "by attacks that work on clean text"
CHOICES = {"uniform": 0.0, "frequency": 1.0}


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


class Pair(NamedTuple):
    """One setting in which both sides of a claim have run: seed → metric."""

    setting: str
    more: dict[int, float]
    less: dict[int, float]


def claims(results: Results) -> list[Claim]:
    """Test every claim that cells of this project can support, RAPT's first."""
    params = results.params
    tuned = [c for kind in ("train", "study") for c in results.of(kind)]
    protected = [c for c in tuned if not is_unprotected(c.factors["eta"])]
    rebuilt = [c for c in protected if c.factors["method"] == "rapt"]
    inverted = results.of("invert")
    works = tables.sound(results)
    return [
        _claim(
            "pct2t-over-t2t",
            "At equal η, tuning on PCT2T's words is more accurate than on T2T's.",
            "RAPT, Table II",
            "accuracy with pct2t less t2t",
            _pairs(protected, "method", _named("method", "t2t", "pct2t")),
        ),
        _claim(
            "rapt-over-pct2t",
            "At equal η, plain tokens and their reconstruction add accuracy to PCT2T.",
            "RAPT, Tables II and VIII",
            "accuracy with rapt less pct2t",
            _pairs(protected, "method", _named("method", "pct2t", "rapt")),
        ),
        _claim(
            "reconstruction",
            "With the same plain tokens, reconstructing them adds accuracy.",
            "RAPT, Table VIII",
            "accuracy with the reconstruction less without",
            _pairs(protected, "method", _knob(params, "reconstruction", levels=_reconstructs)),
        ),
        _claim(
            "plain-length",
            "More plain tokens add accuracy.",
            "RAPT, Figure 5",
            "accuracy with the most plain tokens less the fewest",
            _pairs(
                protected,
                "method",
                _knob(params, "plain_tokens", "length", levels=lambda own, _: float(own)),
            ),
        ),
        _claim(
            "plain-choice",
            "Plain tokens that are drawn by their frequency add accuracy over uniform ones.",
            "RAPT, Table VII",
            "accuracy with frequent plain tokens less uniform ones",
            _pairs(
                protected,
                "method",
                _knob(params, "plain_tokens", "choice", levels=lambda own, _: CHOICES[own]),
            ),
        ),
        _claim(
            "prefix-length",
            "A longer prefix adds accuracy to RAPT.",
            "RAPT, Table VI",
            "accuracy with the longest prefix less the shortest",
            _pairs(rebuilt, "tuner", _prefix(params)),
        ),
        _claim(
            "lora-over-prompt",
            "LoRA is more accurate than prompt tuning.",
            "RAPT, Table II",
            "accuracy with LoRA less prompt tuning",
            _pairs(tuned, "tuner", _tuner(params, "prompt-tuning", "lora")),
        ),
        _claim(
            "utility-rises",
            "Utility rises with η.",
            "RAPT, Table II; Qu et al., Tables 4 and 5",
            "accuracy at the largest finite η less the smallest",
            _pairs(protected, "eta", _eta),
        ),
        _claim(
            "bayes-over-nearest",
            "Whoever knows the mechanism recovers more protected words than the nearest neighbour.",
            "Tong et al., 2024",
            "words recovered by the Bayesian attack, its prior fitted to the release, less the "
            f"nearest neighbour, {WORKS}",
            _pairs(
                [c for c in inverted if not is_unprotected(c.factors["eta"])],
                "attack",
                _informed(params),
                "accuracy_protected",
                works,
            ),
        ),
        _claim(
            "inversion-rises",
            "The smaller η, the fewer protected words the nearest neighbour recovers.",
            "Qu et al., Table 3; RAPT, Figure 4",
            f"words recovered at the largest finite η less the smallest, {WORKS}",
            _pairs(
                _of(params, inverted, "nearest-neighbour"),
                "eta",
                _eta,
                "accuracy_protected",
                works,
            ),
        ),
        _claim(
            "learned-inversion-rises",
            "The smaller η, the fewer protected words an attacker recovers who learns from pairs.",
            "RAPT, Figure 4",
            f"words recovered at the largest finite η less the smallest, {WORKS}",
            _pairs(
                _of(params, inverted, "mlp-inversion", "autoencoder"),
                "eta",
                _eta,
                "accuracy_protected",
                works,
            ),
        ),
        _claim(
            "inference-rises",
            "The smaller η, the less often a private attribute is inferred.",
            "RAPT, Figure 4",
            f"attributes inferred at the largest finite η less the smallest, {WORKS}",
            _pairs(results.of("infer"), "eta", _eta, "accuracy_", works),
        ),
        _categories(results),
        _claim(
            "words-over-vectors",
            "At equal η, tuning on T2T's words is more accurate than on token representations.",
            "Qu et al., Tables 4 and 5",
            "accuracy with t2t less token-representation",
            _pairs(protected, "method", _named("method", "token-representation", "t2t")),
        ),
    ]


def _claim(
    name: str,
    sentence: str,
    source: str,
    effect: str,
    pairs: Sequence[Pair],
    confidence: float = 0.95,
) -> Claim:
    """Test a claim that one side is above the other."""
    every = [seeds for pair in pairs for seeds in (set(pair.more), set(pair.less))]
    shared = sorted(set.intersection(*every)) if every else []
    values = [100 * fmean(pair.more[k] - pair.less[k] for pair in pairs) for k in shared]
    low, high = tables.interval(values, confidence) or (None, None)
    verdict: Verdict = "not enough data"
    if low is not None:
        verdict = "supported" if low > 0 else "not supported"
    return Claim(
        name=name,
        sentence=sentence,
        source=source,
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


def _pairs(
    cells: Iterable[Cell],
    varied: str,
    level: Callable[[Cell], float | None],
    metric: str = "accuracy",
    works: Collection[tuple[str, str]] | None = None,
) -> list[Pair]:
    """Pair the cell of the highest level with that of the lowest, other factors being equal.

    Args:
        cells: cells of one kind.
        varied: the factor in which the two differ.
        level: the level of a cell; None: the cell is not part of the claim.
        metric: the compared metric; with a trailing `_`, every metric with this prefix.
        works: cells and metrics of the attacks that work on clean text; others do not count. None:
            all count.
    """
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, Cell]]] = {}
    for cell in cells:
        if cell.content and (found := level(cell)) is not None:
            kept = sorted((k, v) for k, v in cell.factors.items() if k not in (varied, "study"))
            groups.setdefault(tuple(kept), []).append((found, cell))
    pairs = []
    for group in groups.values():
        (least, less), (most, more) = (
            end(group, key=lambda ranked: ranked[0]) for end in (min, max)
        )
        if least < most:
            pairs += [
                Pair(_setting(more, less, varied), more.by_seed(name), less.by_seed(name))
                for name in _metrics(more, metric)
                if works is None or {(more.plan.cell, name), (less.plan.cell, name)} <= set(works)
            ]
    return pairs


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
    name, source = "categories-differ", "RAPT, Figures 6, 8 and 10"
    sentence = "At equal η, which categories are replaced changes how much of them is recovered."
    settings = _by_scheme(results)
    schemes = sorted(set.intersection(*map(set, settings.values()))) if settings else []
    pairs = list(permutations(schemes, 2))
    judged = []
    for more, less in pairs:
        own = [Pair(setting, by[more], by[less]) for setting, by in settings.items()]
        effect = (
            f"protected words recovered with {more} less {less}, {WORKS}, the surest of "
            f"{len(pairs) // 2} pairs, with an interval that holds for all of them together"
        )
        confidence = 1 - FALSE_ALARMS / (len(pairs) / 2)
        judged.append(_claim(name, sentence, source, effect, own, confidence))
    effect = f"protected words recovered by category, {WORKS}"
    none = _claim(name, sentence, source, effect, [])
    return max(judged, key=lambda c: (-inf if c.low is None else c.low, c.effect), default=none)


def _by_scheme(results: Results) -> dict[str, dict[str, dict[int, float]]]:
    """Return setting → method with categories → seed → share that nearest neighbour recovers."""
    methods = results.params.methods.items()
    schemes = [name for name, m in methods if m.categories and not m.plain_tokens]
    found: dict[str, dict[str, dict[int, float]]] = {}
    works = tables.sound(results)
    for cell in _of(results.params, results.of("invert"), "nearest-neighbour"):
        attack, task, method, eta = (cell.factors[n] for n in ("attack", "task", "method", "eta"))
        sound = (cell.plan.cell, "accuracy_protected") in works
        if cell.content and sound and method in schemes and not is_unprotected(eta):
            by = found.setdefault(f"{attack} · {task} · η = {eta}", {})
            by[method] = cell.by_seed("accuracy_protected")
    return {setting: by for setting, by in found.items() if len(by) > 1}


def _of(params: Params, cells: Iterable[Cell], *types: str) -> list[Cell]:
    """Return the cells of attacks of these types."""
    return [cell for cell in cells if params.attacks[cell.factors["attack"]].type in types]


def _named(factor: str, less: str, more: str) -> Callable[[Cell], float | None]:
    levels = {less: 0.0, more: 1.0}
    return lambda cell: levels.get(cell.factors[factor])


def _informed(params: Params) -> Callable[[Cell], float | None]:
    """Return levels of attacks on one release: 0 for nearest neighbour, 1 for Bayesian."""

    def level(cell: Cell) -> float | None:
        how = params.attacks[cell.factors["attack"]]
        if how.type == "nearest-neighbour":
            return 0.0
        fitted = how.type == "bayesian" and how.prior == "release" and not how.given
        return 1.0 if fitted else None

    return level


def _eta(cell: Cell) -> float | None:
    eta = cell.factors["eta"]
    return None if is_unprotected(eta) else float(eta)


def _tuner(params: Params, less: str, more: str) -> Callable[[Cell], float | None]:
    levels = {less: 0.0, more: 1.0}
    return lambda cell: levels.get(params.tuners[cell.factors["tuner"]].type)


def _prefix(params: Params) -> Callable[[Cell], float | None]:
    """Return levels of prefix lengths, of tuners with the first one's learning rate."""
    prefixes = {n: t for n, t in params.tuners.items() if t.type == "prefix-tuning"}
    rates = [tuner.learning_rate for tuner in prefixes.values()]
    levels = {n: float(t.tokens) for n, t in prefixes.items() if t.learning_rate == rates[0]}
    return lambda cell: levels.get(cell.factors["tuner"])


def _knob(
    params: Params, *path: str, levels: Callable[[Any, Any], float | None]
) -> Callable[[Cell], float | None]:
    """Return levels of methods that differ from rapt in one knob, by its value and rapt's."""
    known: dict[str, float | None] = {}
    if base := params.methods.get("rapt"):
        for name, method in params.methods.items():
            content, like = method.model_dump(), base.model_dump()
            own, other = _pop(content, path), _pop(like, path)
            if content == like:
                known[name] = levels(own, other)
    return lambda cell: known.get(cell.factors["method"])


def _reconstructs(own: Any, of_rapt: Any) -> float | None:
    if own is None:
        return 0.0
    return 1.0 if own == of_rapt else None


def _pop(content: dict[str, Any], path: Sequence[str]) -> Any:
    """Remove a knob from a method's content and return its value."""
    *outer, last = path
    for key in outer:
        content = content[key] or {}
    return content.pop(last, None)
