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

    def document(self, words: int) -> Budget:
        """Return the budget of a document in which this many words got noise."""
        return Budget(self.mechanism, self.eta, words)

    def __add__(self, other: Budget) -> Budget:
        """Add the budgets of two releases of one text, or of two parts of it.

        Raises:
            RaptError: they differ in mechanism or η, so that no single number states their sum.
        """
        if (self.mechanism, self.eta) != (other.mechanism, other.eta):
            raise RaptError("budgets: got different mechanisms or etas, expected one of each.")
        return Budget(self.mechanism, self.eta, self.words + other.words)

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

    def text(self, distances: Distances | None = None) -> str:
        """Return the budget in plain words."""
        if np.isinf(self.eta):
            return "Nothing is protected: eta is inf."
        lines = [
            f"{self.words} words got noise, each at eta {self.eta:g} ({self.mechanism.metric}). "
            f"Compared with a text that differs by distances d in these words, the release is at "
            f"most exp({self.eta:g} * (sum of d)) times as likely: d_X-privacy. This is no epsilon "
            "of differential privacy; it means something only beside the distances."
        ]
        if distances and self.words:
            lines += [
                f"If each word were replaced by {name}: "
                + (
                    f"distance {distance:.3g}, at most exp({self.loss(distance):.4g})."
                    if np.isfinite(self.loss(distance))
                    else "no bound."
                )
                for name, distance in _named(distances).items()
            ]
        return "\n".join(lines)


def _named(distances: Distances) -> dict[str, float]:
    return {
        "its nearest word": distances.nearest,
        "a random word (closest 5 %)": distances.low,
        "a random word (median)": distances.median,
        "a random word (farthest 5 %)": distances.high,
    }


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
