"""Which of two cells is better: differences, paired by seed and text, and those of the methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rapt.analysis.effects import FALSE_ALARMS, Effect, jointly, over_seeds, over_texts
from rapt.analysis.intervals import CONFIDENCE, difference
from rapt.grid import ATTACKED, sorted_etas
from rapt.reporting import tables
from rapt.reporting.rows import Row, once
from rapt.reporting.tables import groups
from rapt.reporting.utility_table import utility
from rapt.results.reader import ReadCell, Results, label

Verdict = Literal["higher", "lower", "undecided"]


class Pair(NamedTuple):
    """The two sides of a setting, which have run, and the metric that is compared."""

    setting: str
    more: ReadCell
    less: ReadCell
    metric: str = "accuracy"

    def over(self, seeds: Sequence[int]) -> NDArray[np.float64] | None:
        """Return for each seed and text how often `more` is right minus how often `less` is.

        Returns:
            (seeds, texts); None: a cell kept no results of single texts, or has other texts.
        """
        examples, rights = [], []
        for cell in (self.more, self.less):
            attacks = cell.plan.kind in ATTACKED
            one = cell.successes.get(self.metric) if attacks else cell.predictions.get("test")
            if one is None or len(one.examples) < 2:
                return None
            examples.append(one.examples)
            places = list(cell.by_seed(self.metric))
            rights.append(one.right[[places.index(seed) for seed in seeds]])
        return rights[0].astype(np.float64) - rights[1] if examples[0] == examples[1] else None


@dataclass(frozen=True)
class Comparison:
    """The mean difference over some settings, and by how many seeds and texts it is paired."""

    effect: Effect
    seeds: int
    # None: by seeds alone.
    texts: int | None


def compare(pairs: Sequence[Pair]) -> Comparison | None:
    """Compare the sides of all settings; None: they share no seed.

    They are paired by their seeds, and by texts if the result of each text is kept.
    """
    by_seed = [(p.more.by_seed(p.metric), p.less.by_seed(p.metric)) for p in pairs]
    sides = [set(side) for both in by_seed for side in both]
    seeds = sorted(set.intersection(*sides)) if sides else []
    if not seeds:
        return None
    tasks: dict[str, list[NDArray[np.float64]]] = {}
    for pair in pairs:
        over = pair.over(seeds)
        if over is None:
            values = [fmean(more[k] - less[k] for more, less in by_seed) for k in seeds]
            return Comparison(over_seeds(values), len(seeds), None)
        tasks.setdefault(pair.more.factors["task"], []).append(over)
    stacked = [np.stack(settings) for settings in tasks.values()]
    return Comparison(over_texts(stacked), len(seeds), sum(over.shape[2] for over in stacked))


# The accuracy of one method minus that of the one listed before it, paired as in `compare`.
DIFFERENCE = (
    *("task", "backbone", "tuner", "eta", "method", "against"),
    # With its own 95 % confidence interval, and one that leaves out 0 unless it is undecided.
    *("mean", "low", "high", "joint_low", "joint_high"),
    # The p-value of no difference, by Holm's correction for all rows of the table.
    *("seeds", "texts", "p", "verdict"),
)


def ranks(rights: Sequence[NDArray[Any]]) -> list[tuple[int, int]]:
    """Return the best and the worst rank of each model or attack that the texts leave open.

    One is surely above another where the interval of their difference, paired by text, is above
    0. The intervals of all pairs hold together in 95 % of all samples (Bonferroni), so the ranges
    do as well (Mogstad et al., 2024).

    Args:
        rights: whether each seed's model is right about each of the same texts, (k, n), or each
            text's part in the share of an attack.
    """
    count = len(rights)
    confidence = 1 - (1 - CONFIDENCE) / max(1, count * (count - 1) / 2)
    above = np.zeros((count, count), bool)
    for one, other in permutations(range(count), 2):
        above[one, other] = difference(rights[one], rights[other], confidence)[1] > 0
    return [(1 + int(above[:, i].sum()), count - int(above[i].sum())) for i in range(count)]


def unbeaten(attacks: Sequence[Row]) -> list[Row]:
    """Return those of the attacks on one release, and one target, that no other surely beats.

    They are compared by text, as in `ranks`. Where one keeps no texts, nothing is sure.
    """
    own = tables.counting(attacks)
    rights = [attack.texts.right for attack in own if attack.texts]
    if len(rights) < len(own):
        return own
    return [attack for attack, (best, _) in zip(own, ranks(rights), strict=True) if best == 1]


@once
def differences(results: Results) -> list[Row]:
    """Compare each method with the one listed before it, at equal η, where both have run.

    Then compare each denoised one, by its label, with the same method as released.
    """
    methods = [(method, against) for against, method in pairwise(results.params.sweep.methods)]
    return differences_of(results, [*methods, *denoised(results)])


def denoised(results: Results) -> list[tuple[str, str]]:
    """Return the label of each denoised method, with the method it is compared with."""
    sweep = results.params.sweep
    return [(label(m, denoiser), m) for m in sweep.channels for denoiser in sweep.denoisers]


def differences_of(results: Results, pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """Compute the first minus the second label of each pair, at each η where both have run."""
    ran = {
        (*(cell.factors[name] for name in ("task", "backbone", "tuner", "eta")), cell.label): cell
        for kind in ("train", "denoise")
        for cell in results.of(kind)
        if cell.content
    }
    etas = sorted_etas(results.params.sweep.etas)
    found = []
    for group, (method, against), eta in product(groups(utility(results)), pairs, etas):
        own, other = (ran.get((*group, eta, name)) for name in (method, against))
        if own and other and (compared := compare([Pair("", own, other)])):
            found.append(((*group, eta, method, against), compared))
    joint = jointly([compared.effect for _, compared in found])
    return [_difference(*row, *tested) for row, tested in zip(found, joint, strict=True)]


def _difference(
    factors: tuple[str, ...],
    compared: Comparison,
    joint: tuple[float, float] | None,
    p: float,
) -> Row:
    mean, ends = compared.effect.mean, compared.effect.interval() or (None, None)
    verdict: Verdict = "undecided"
    if p <= FALSE_ALARMS:
        verdict = "higher" if mean > 0 else "lower"
    paired = (compared.seeds, compared.texts)
    values = (*factors, mean, *ends, *(joint or (None, None)), *paired, p, verdict)
    return Row(**dict(zip(DIFFERENCE, values, strict=True)), group=factors[:3])
