"""The privacy budget of a release: losses add up over words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms import Mechanism, Space
from rapt.utils.errors import RaptError, wrong_eta
from rapt.utils.memmap import take

QUANTILES = (0.05, 0.5, 0.95)
PAIRS = 4_000


@dataclass(frozen=True)
class Distances:
    """Distances between words of a table, in a mechanism's metric.

    Attributes:
        low: the 5 % quantile over random pairs; `median`: 50 %; `high`: 95 %.
        nearest: the median distance of a word to its nearest other word.
    """

    low: float
    median: float
    high: float
    nearest: float


def distances(mechanism: Mechanism, spaces: Sequence[Space], pairs: int = PAIRS) -> Distances:
    """Compute the distances of random pairs of distinct words, and to nearest words.

    Args:
        mechanism: the mechanism that defines the metric.
        spaces: the candidates of each group. Words are compared within their group, and each group
            has its share of the pairs.
        pairs: number of pairs to draw, with a fixed seed, as the table is public.
    """
    rng = np.random.default_rng(0)
    words = sum(len(space.vectors) for space in spaces)
    sampled = [
        _distances(mechanism, space, -(-pairs * len(space.vectors) // words), rng)
        for space in spaces
    ]
    random, nearest = (np.concatenate(part) for part in zip(*sampled, strict=True))
    # By order statistics, as infinite distances cannot be interpolated.
    low, median, high = np.quantile(random, QUANTILES, method="lower")
    return Distances(
        float(low), float(median), float(high), float(np.quantile(nearest, 0.5, method="lower"))
    )


def _distances(
    mechanism: Mechanism, space: Space, pairs: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distances of random pairs (pairs,), and of a tenth as many words to their nearest."""
    size = len(space.vectors)
    one = rng.integers(size, size=pairs)
    other = (one + rng.integers(1, size, size=pairs)) % size
    random = mechanism.distance(space, take(space.vectors, one), take(space.vectors, other))
    some = take(space.vectors, one[: -(-pairs // 10)])
    near = space.search().nearest(some, 2)
    first, second = (take(space.vectors, rows) for rows in near.T)
    return random, mechanism.distance(space, first, second)


@dataclass(frozen=True)
class Budget:
    """The privacy loss of a text: the log-likelihood ratio of its release against another text.

    For two texts with the same number of words it is at most η·Σ d(wᵢ, w'ᵢ) (d_X-privacy). This
    means nothing without the distances, and is not the ε of differential privacy.

    Attributes:
        mechanism: the mechanism of the release.
        eta: the privacy parameter, above 0.
        words: number of words that got noise, over all releases of the text; each spends η per
            unit of distance.
    """

    mechanism: Mechanism
    eta: float
    words: int = 1

    def __post_init__(self) -> None:
        if not self.eta > 0:
            raise RaptError(f"eta: {wrong_eta(self.eta)}")
        if self.words < 0:
            raise RaptError(f"words: got {self.words}, expected 0 or more.")

    def loss(self, distance: float) -> float:
        """Bound the loss if each of the words differs by this distance."""
        # 0 words lose nothing, even if the distance is infinite.
        return self.words * self.mechanism.bound(self.eta, distance) if self.words else 0.0

    def as_json(self, distances: Distances | None = None) -> dict[str, Any]:
        """Return the budget as JSON for a privacy statement; infinite losses are null."""
        content: dict[str, Any] = {
            "kind": "d_X-privacy",
            "metric": self.mechanism.metric,
            "words": self.words,
            "eta_per_word": _finite(self.eta),
        }
        if distances:
            content["loss"] = {
                name: {"distance": _finite(distance), "at_most": _finite(self.loss(distance))}
                for name, distance in _named(distances).items()
            }
        return content


def _named(distances: Distances) -> dict[str, float]:
    return {
        "its nearest word": distances.nearest,
        "a random word (closest 5 %)": distances.low,
        "a random word (median)": distances.median,
        "a random word (farthest 5 %)": distances.high,
    }


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
