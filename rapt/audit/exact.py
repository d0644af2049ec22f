"""Exact laws of outcomes, computed apart from the mechanisms, and what tests of them detect."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import binom

from rapt.privacy.mechanisms import Mechanism, Space, WordMechanism
from rapt.privacy.mechanisms.exponential import blocks
from rapt.privacy.mechanisms.optimal import ONE, optimal_channel

Law = NDArray[np.float64]  # P(y|w), (V, V)

POWER = 0.99
REPEATS = 6.64  # expected, so that there are two or more with probability POWER
MOST = 16.0  # times η, the greatest excess that is looked for
STEP = 1.002  # the precision

GRID = 1 << 13  # points at which the map from uniform numbers to outcomes is read
OFF = (2 / GRID, 64 / GRID)  # of a probability read off with one uniform number, with two
GOLDEN = (5**0.5 - 1) / 2
READ = 3  # words whose law is read


def exact_law(kind: Mechanism, space: Space, eta: float) -> Law | None:
    """P(y|w) of the space's words by the formula of a mechanism's paper; None: there is none."""
    return LAWS[kind.name](kind, space, eta) if kind.name in LAWS else None


def deviates(
    kind: Mechanism, space: Space, eta: float, law: Law, read: int = READ
) -> Callable[[float], bool]:
    """Whether the mechanism at f·η has another law than this one for any of `read` words, by f.

    Its map from uniform numbers to outcomes is read on a grid: it is deterministic, so no draw
    decides.
    """
    assert isinstance(kind, WordMechanism)
    points = np.arange(GRID)
    grid = np.column_stack([(points + 0.5) / GRID, points * GOLDEN % 1])[:, : kind.uniforms]
    words = np.unique(np.linspace(0, len(law) - 1, read).astype(int))

    def off(factor: float) -> bool:
        sampler = kind.sampler(space, factor * eta)
        for word in words:
            rows = sampler(np.repeat(space.vectors[[word]], GRID, axis=0), grid)
            found = np.bincount(rows, minlength=len(law)) / GRID
            if np.abs(found - law[word]).max() > OFF[kind.uniforms - 1]:
                return True
        return False

    return off


def two_sided(law: Any, value: Any, *parameters: Any) -> Any:
    """The exact p-value, under a law of scipy's, of a number that may be too small or too large.

    The law's parameters come apart, because freezing a law costs more than computing it.
    """
    above = law.sf(value - 1 if hasattr(law, "pmf") else value, *parameters)
    return np.minimum(1.0, 2 * np.minimum(law.cdf(value, *parameters), above))


def p_of(counts: NDArray[np.int64], law: Law) -> float:
    """The exact p-value of the outcome whose count is the least likely, of all outcomes."""
    tests = two_sided(binom, counts, counts.sum(), law)
    return float(min(1.0, len(law) * tests.min()))


def differs(law: Law, other: Law, draws: int, level: float) -> bool:
    """Whether `p_of` rejects a law at the level, with probability POWER, if another holds."""
    nearest = binom.ppf(np.where(other > law, 1 - POWER, POWER), draws, other)
    apart = np.where(other > law, nearest > draws * law, nearest < draws * law)
    return bool((apart & (len(law) * two_sided(binom, nearest, draws, law) < level)).any())


def smallest_excess(detects: Callable[[float], bool]) -> float | None:
    """The least factor f for which an implementation that spends f·η is detected.

    Args:
        detects: whether a factor is, with probability POWER; the more, the greater it is.

    Returns:
        The factor, rounded up to a step; None: MOST is not detected.
    """
    least, most = 1.0, MOST
    if not detects(most):
        return None
    while most > least * STEP:
        between = sqrt(least * most)
        least, most = (least, between) if detects(between) else (between, most)
    return most


def _distances(space: Space) -> Law:
    vectors = np.asarray(space.vectors, np.float64)
    return np.asarray(np.linalg.norm(vectors[:, None] - vectors, axis=2))


def _santext(kind: Any, space: Space, eta: float) -> Law:
    return softmax(-eta / 2 * _distances(space), axis=1)


def _tem(kind: Any, space: Space, eta: float) -> Law:
    cut = max(0.0, 2 / eta * np.log((1 - kind.beta) * (len(space.vectors) - 1) / kind.beta))
    return softmax(-eta / 2 * np.minimum(_distances(space), cut), axis=1)


def _santext_plus(kind: Any, space: Space, eta: float) -> Law:
    size = len(space.vectors)
    is_rare = np.argsort(np.argsort(space.frequency, kind="stable")) < max(1, int(kind.rare * size))
    among = softmax(np.where(is_rare, -eta / 2 * _distances(space), -np.inf), axis=1)
    return np.where(is_rare[:, None], among, kind.p * among + (1 - kind.p) * np.eye(size))


def _custext(kind: Any, space: Space, eta: float) -> Law:
    block = blocks(space, kind.size)
    same = block[:, None] == block
    distances = np.where(same, _distances(space), np.nan)
    low, high = (f(distances, axis=1, keepdims=True) for f in (np.nanmin, np.nanmax))
    return softmax(np.where(same, -eta / 2 * (distances - low) / (high - low), -np.inf), axis=1)


def _imola(kind: Any, space: Space, eta: float) -> Law:
    return optimal_channel(space, eta) / ONE


LAWS: dict[str, Callable[[Any, Space, float], Law]] = {
    "santext": _santext,
    "tem": _tem,
    "santext-plus": _santext_plus,
    "custext": _custext,
    "imola": _imola,
}
