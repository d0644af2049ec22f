"""The papers' claims, tested on the cells: supported, refuted or undecided.

Each effect is the mean difference over all settings that have run on both sides, paired as in
`comparisons.compare`. A claim is supported if its effect is at least MARGIN, and surely above 0. It
is refuted if its effect is surely below MARGIN, be it negative or too small to matter. All claims
with an interval are one family, as the page shows them side by side. Holm's correction is applied
to each of the two hypotheses by itself, because a claim can be decided on one and err on the other.

Thus at most 2.5 % of experiments support any claim whose effect is 0 or less. At most 2.5 % refute
any claim whose effect is MARGIN or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import inf, nan
from typing import Literal

from rapt.analysis.effects import Effect, holm
from rapt.analysis.intervals import CONFIDENCE
from rapt.reporting import tables
from rapt.reporting.comparisons import FALSE_ALARMS, Comparison, Pair, compare
from rapt.reporting.published_claims import PublishedStatement, by_scheme, pairs, statements
from rapt.reporting.text import count
from rapt.results.reader import Results

Verdict = Literal["supported", "refuted", "undecided"]
POINTS = "percentage points"
# The least effect that matters: one answer, word or attribute in a hundred. A user would hardly
# choose a method for less, and cells that differ in nothing but their seeds differ by as much.
MARGIN = 1.0
# Settings of an effect that are listed; further ones are only counted.
LISTED = 6


@dataclass(frozen=True)
class PaperClaim:
    """A statement with the result of its test.

    Attributes:
        name: as in `PublishedStatement`, like `sentence` and `source`.
        effect: the mean difference, in `unit`; None without seeds.
        low: lower end of its own 95 % confidence interval; None if unknown.
        high: upper end of the interval.
        n: number of seeds, over which the effect is paired.
        texts: number of texts, over which it is paired as well; None: over seeds alone.
        unit: of effect, low and high.
        verdict: on all claims together; undecided without an interval.
        p_supported: p-value of an effect of 0 or less, by Holm's correction.
        p_refuted: p-value of an effect of MARGIN or more, likewise.
        basis: definition of the effect, and the settings it is averaged over.
    """

    name: str
    sentence: str
    source: str
    effect: float | None
    low: float | None
    high: float | None
    n: int
    texts: int | None
    unit: str
    verdict: Verdict
    p_supported: float
    p_refuted: float
    basis: str


def claims(results: Results) -> list[PaperClaim]:
    """Test every claim that cells of this project can support."""
    sound = tables.sound(results)
    tested = [
        _test(claim, pairs(results, claim, sound)) if claim.levels else _categories(results, sound)
        for claim in statements().values()
    ]
    family = [n for n, claim in enumerate(tested) if claim.low is not None]
    judged = judge(
        [(tested[n].effect or 0, tested[n].p_supported, tested[n].p_refuted) for n in family]
    )
    for n, (verdict, supported, refuted) in zip(family, judged, strict=True):
        tested[n] = replace(tested[n], verdict=verdict, p_supported=supported, p_refuted=refuted)
    return tested


def judge(tested: Sequence[tuple[float, float, float]]) -> list[tuple[Verdict, float, float]]:
    """Return the verdict on each claim of a family, with its adjusted p-values.

    Args:
        tested: of each claim by itself: its effect in points, and the p-values of an effect of 0
            or less and of MARGIN or more.
    """
    found: list[tuple[Verdict, float, float]] = []
    supports, refutes = (holm([test[n] for test in tested]) for n in (1, 2))
    for (effect, *_), supported, refuted in zip(tested, supports, refutes, strict=True):
        verdict: Verdict = "undecided"
        if refuted <= FALSE_ALARMS / 2:
            verdict = "refuted"
        elif effect >= MARGIN and supported <= FALSE_ALARMS / 2:
            verdict = "supported"
        found.append((verdict, float(supported), float(refuted)))
    return found


def _test(
    claim: PublishedStatement, pairs: Sequence[Pair], confidence: float = CONFIDENCE
) -> PaperClaim:
    """Test a claim by itself, with no verdict yet."""
    basis = _basis(claim.effect, [pair.setting for pair in pairs])
    compared = compare(pairs) or Comparison(Effect(nan, []), 0, None)
    effect = compared.effect
    low, high = effect.interval(confidence) or (None, None)
    return PaperClaim(
        name=claim.name,
        sentence=claim.sentence,
        source=claim.source,
        effect=100 * effect.mean if compared.seeds else None,
        low=low and 100 * low,
        high=high and 100 * high,
        n=compared.seeds,
        texts=compared.texts,
        unit=POINTS,
        verdict="undecided",
        p_supported=effect.above(0),
        p_refuted=effect.below(MARGIN / 100),
        basis=basis,
    )


def _basis(effect: str, settings: Sequence[str]) -> str:
    if not settings:
        return f"{effect}: no setting has run on both sides"
    more = f", and {len(settings) - LISTED} more" if len(settings) > LISTED else ""
    over = f"in the mean over {count(len(settings), 'setting')}"
    return f"{effect}, {over}: {'; '.join(settings[:LISTED])}{more}"


def _categories(results: Results, sound: set[tuple[str, str]]) -> PaperClaim:
    """Test that categories differ in either direction, by the pair with the clearest effect.

    Support counts the pairs in either order (Bonferroni). All of them have to be refuted.
    """
    claim = statements()["categories-differ"]
    settings = by_scheme(results, sound)
    schemes = sorted(set.intersection(*map(set, settings.values()))) if settings else []
    orders = list(permutations(schemes, 2))
    tested = []
    for more, less in orders:
        effect = (
            f"protected words recovered with {more} minus {less}, by attacks that work on clean "
            f"text, the surest of {len(orders) // 2} pairs (one interval for all of them)"
        )
        own = [Pair(setting, by[more], by[less], claim.metric) for setting, by in settings.items()]
        tested.append(_test(replace(claim, effect=effect), own, 1 - (1 - CONFIDENCE) / len(orders)))
    if not tested:
        return _test(claim, [])
    clearest = max(tested, key=lambda c: (-inf if c.low is None else c.low, c.effect or 0.0))
    supported = min(1.0, len(orders) * min(c.p_supported for c in tested))
    refuted = max(c.p_refuted for c in tested)
    return replace(clearest, p_supported=supported, p_refuted=refuted)
