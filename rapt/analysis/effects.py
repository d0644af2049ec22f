"""How sure the difference between two sides is, and Holm's correction for many differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import stdtrit

from rapt.analysis.intervals import CONFIDENCE

# Seeds that an interval over seeds alone needs at least.
FEWEST_SEEDS = 3
# Of the verdicts of one family: how often any is wrong, half of it either way.
FALSE_ALARMS = 0.05
# The smallest p-value that is told apart from 0.
TINY = 1e-15


@dataclass(frozen=True)
class Effect:
    """A mean difference, and the parts of its variance, which add up.

    An interval reaches √(Σ t²·variance) to either side, where Student's t has the degrees of
    freedom of the part. It never covers less than it says (Banerjee, 1961). So it holds for the
    small probabilities that Holm's correction needs, and for two seeds. Satterthwaite's
    approximation, as in `rapt.analysis.intervals`, fails there.

    Attributes:
        mean: the difference.
        parts: the variance and the degrees of freedom of each part; none: nothing is known.
    """

    mean: float
    parts: Sequence[tuple[float, int]]

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """Return the confidence interval; None: nothing is known of the variance."""
        if not self.parts:
            return None
        reach = self._reach((1 - confidence) / 2)
        return self.mean - reach, self.mean + reach

    def above(self, bound: float) -> float:
        """Return the p-value of an effect that is really at most `bound`.

        It is at most 2.5 % exactly where the 95 % interval lies above the bound.
        """
        over = self.mean - bound
        if not self.parts:
            return 1.0
        if self._reach(TINY) <= abs(over):
            tail = 0.0
        else:
            tail = exp(brentq(lambda x: self._reach(exp(x)) - abs(over), log(TINY), log(0.5)))
        return tail if over > 0 else 1 - tail

    def below(self, bound: float) -> float:
        """Return the p-value of an effect that is really at least `bound`."""
        return Effect(-self.mean, self.parts).above(-bound)

    def _reach(self, tail: float) -> float:
        return sqrt(sum(part * float(stdtrit(free, tail)) ** 2 for part, free in self.parts))


def over_seeds(differences: Sequence[float]) -> Effect:
    """Return the mean over seeds, whose interval is Student's; fewer than FEWEST_SEEDS have none.

    Args:
        differences: of each seed, one or more.
    """
    own, n = np.array(differences, np.float64), len(differences)
    parts = [(float(own.var(ddof=1)) / n, n - 1)] if n >= FEWEST_SEEDS else []
    return Effect(float(own.mean()), parts)


def pooled(settings: Iterable[NDArray[np.float64]]) -> tuple[float, int] | None:
    """Pool the variance over seeds within some settings; None: each has one seed.

    Args:
        settings: for each what one side has more, float64 (seeds, texts).

    Returns:
        the variance, and its degrees of freedom.
    """
    means = [over.mean(axis=1) for over in settings if len(over) > 1]
    free = sum(len(own) - 1 for own in means)
    return (sum(float(own.var()) * len(own) for own in means) / free, free) if free else None


def over_texts(
    tasks: Sequence[NDArray[np.float64]], of_seeds: tuple[float, int] | None = None
) -> Effect:
    """Return the mean over the settings of all tasks, as if texts and seeds had been drawn anew.

    The settings of a task share its texts, so a text varies with all its settings and seeds. It
    varies at least as much as if a single text differed: sides that agree on every text seen may
    differ on the next. Of the seeds each setting is a training of its own, so that the variances
    within the settings are pooled. One seed has none, and the interval then covers texts alone.

    Args:
        tasks: for each task what one side has more, float64 (settings, seeds, texts > 1).
        of_seeds: the variance over seeds if further settings have a part in it: `pooled`.
    """
    settings = sum(len(over) for over in tasks)
    parts = []
    for over in tasks:
        texts = over.shape[2]
        each = max(float(over.mean(axis=(0, 1)).var(ddof=1)), 1 / texts)
        parts.append(((len(over) / settings) ** 2 * each / texts, texts - 1))
    every = [setting for over in tasks for setting in over]
    if of_seeds := of_seeds or pooled(every):
        variance, free = of_seeds
        parts.append((variance / (settings * len(every[0])), free))
    return Effect(float(np.mean([setting.mean() for setting in every])), parts)


def jointly(effects: Sequence[Effect]) -> list[tuple[tuple[float, float] | None, float]]:
    """Test each of a family of effects against 0, by Holm's correction.

    Returns:
        for each its interval, and its adjusted p-value. The interval has the level at which Holm's
        correction tests the effect: it leaves out 0 exactly where the p-value is at most
        FALSE_ALARMS.
    """
    alone = [2 * min(effect.above(0), effect.below(0)) for effect in effects]
    return [
        (
            effect.interval(1 - FALSE_ALARMS * (p / joint if 0 < joint < 1 else 1 / len(effects))),
            float(joint),
        )
        for effect, p, joint in zip(effects, alone, holm(alone), strict=True)
    ]


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for being a family, whatever their dependence (Holm, 1979).

    Rejecting those at most α rejects any true hypothesis with a probability of at most α.
    """
    given = np.asarray(p_values, np.float64)
    order, left = given.argsort(), np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(left * given[order]))
    return adjusted
