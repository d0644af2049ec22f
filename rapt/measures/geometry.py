"""The geometry of a table: how far words lie from each other, in the metric of the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

from rapt.privacy.categories import ALL, Scheme
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable

NEIGHBOURS = (1, 10, 100)


def neighbour_distances(table: EmbeddingTable, words: int, seed: int) -> dict[int, float]:
    """The mean distance to the k-th nearest other word, for each k of 1, 10, 100 that there is.

    Args:
        table: the embedding table.
        words: how many words to take it over, drawn uniformly.
        seed: of the words.
    """
    ks = [k for k in NEIGHBOURS if k < len(table.words)]
    vectors = np.asarray(table.vectors, np.float64)
    rows = stream(seed, "geometry", "words").permutation(len(vectors))[:words]
    # One word at a time, in memory of one row; the nearest of all is the word itself.
    nearest = [np.partition(cdist(vectors[[row]], vectors)[0], ks)[ks] for row in rows]
    return dict(zip(ks, np.mean(nearest, axis=0).tolist(), strict=True))


def pairwise(table: EmbeddingTable, words: int, seed: int) -> list[dict[str, Any]]:
    """Mean and variance of the distances of all pairs within each category, and of every word.

    Args:
        table: the embedding table.
        words: of larger categories, how many words to take, drawn uniformly.
        seed: of the words.
    """
    scheme = Scheme((ALL,))
    every = np.arange(len(table.words))
    groups = [{scheme.group_of(tag) for tag in pos} for pos in table.pos]
    categories = {"every word": every} | {
        name: every[[group in own for own in groups]] for group, name in enumerate(scheme.names)
    }
    return [
        {"category": name, "words": len(rows), **_spread(table.vectors[_some(rows, words, seed)])}
        for name, rows in categories.items()
        if len(rows) > 1
    ]


def _some(rows: NDArray[np.int64], words: int, seed: int) -> NDArray[np.int64]:
    return np.sort(stream(seed, "geometry", "pairs").permutation(rows)[:words])


def _spread(vectors: NDArray[np.float32]) -> dict[str, float]:
    distances = pdist(vectors)
    return {"mean": float(distances.mean()), "variance": float(distances.var())}
