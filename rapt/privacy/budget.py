"""The privacy budget of a release: losses add up over words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms import Mechanism, Space
from rapt.privacy.mechanisms.base import Vectors
from rapt.privacy.mechanisms.claim import NOTHING, Bound
from rapt.privacy.mechanisms.encoders import WORDS_OF_TEXT, public_texts
from rapt.utils.memmap import take

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable

QUANTILES = {
    "a random word (closest 5 %)": 0.05,
    "a random word (median)": 0.5,
    "a random word (farthest 5 %)": 0.95,
}
FARTHEST = "the farthest word"
PAIRS = 4_000
SWEEPS = 2


def distances(mechanism: Mechanism, spaces: Sequence[Space]) -> dict[str, float]:
    """Compute the distances of words to their nearest word, and to random ones.

    Args:
        mechanism: the mechanism that defines the metric.
        spaces: the candidates of each group. Words are compared within their group, and each group
            has its share of the pairs, drawn with a fixed seed, as the table is public.

    Returns:
        by name the median distance to the nearest word, QUANTILES of those to random words, and the
        largest distance found.
    """
    rng = np.random.default_rng(0)
    words = sum(len(space.vectors) for space in spaces)
    sampled = [
        _distances(mechanism, space, -(-PAIRS * len(space.vectors) // words), rng)
        for space in spaces
    ]
    random, nearest = (np.concatenate(part) for part in zip(*sampled, strict=True))
    # By order statistics, as infinite distances cannot be interpolated.
    found = np.quantile(random, list(QUANTILES.values()), method="lower").tolist()
    median = float(np.quantile(nearest, 0.5, method="lower"))
    finite = np.isfinite(random).all()
    return {
        "its nearest word": median,
        **dict(zip(QUANTILES, found, strict=True)),
        FARTHEST: max(farthest(mechanism, s) for s in spaces) if finite else np.inf,
    }


def distances_of_texts(
    mechanism: Mechanism, table: EmbeddingTable, encoded: Callable[[list[list[str]]], Vectors]
) -> dict[str, float]:
    """Compute the distances of public texts: QUANTILES of them, and the largest found.

    Args:
        mechanism: the mechanism that defines the metric.
        table: of whose words the texts are.
        encoded: from the words of texts to their vectors, (n, k).
    """
    vectors = encoded(public_texts(table))
    space = Space(table.vectors, table.frequency)
    found = mechanism.distance(space, *np.split(vectors, 2))
    quantiles = np.quantile(found, list(QUANTILES.values()), method="lower").tolist()
    names = [name.replace("word", f"text of {WORDS_OF_TEXT} words") for name in QUANTILES]
    return {**dict(zip(names, quantiles, strict=True)), "the farthest of them": float(found.max())}


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


def farthest(mechanism: Mechanism, space: Space) -> float:
    """Return the largest distance found: from each word on to the one farthest from it.

    It is infinite where nothing is promised. A slightly larger one may be missed: all that is sure
    of a metric is that none is more than twice as large.
    """
    row, largest = 0, 0.0
    for _ in range(SWEEPS):
        here = np.broadcast_to(space.vectors[row], space.vectors.shape)
        distances = mechanism.distance(space, here, space.vectors)
        row = int(distances.argmax())
        largest = max(largest, float(distances[row]))
    return largest


def budget(
    kind: str,
    bound: Bound,
    eta: float,
    words: int,
    distances: Mapping[str, float],
    beside: Bound = NOTHING,
) -> dict[str, Any]:
    """Return the budget of a text as JSON: its loss at each distance; infinite ones are null.

    It means nothing without the distances, and is not the ε of differential privacy.

    Args:
        kind: of the claim.
        bound: of a word, or of a text as a whole.
        eta: the privacy parameter.
        words: number of them that got noise, over all releases of the text.
        distances: between each of them and what is in its place in the other text.
        beside: of what is released with the text.
    """
    text = words * bound + beside
    return {
        "kind": kind,
        "metric": bound.metric,
        "words": words,
        "eta_per_word": eta,
        "delta": text.delta,
        "loss": {
            name: {"distance": _finite(distance), "at_most": _finite(text.loss(distance))}
            for name, distance in distances.items()
        },
    }


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
