"""Tables to search, by each way of scoring."""

import numpy as np


def table(rng: np.random.Generator, size: int, dimension: int, kind: str) -> np.ndarray:
    vectors = rng.standard_normal((size, dimension)).astype(np.float32)
    match kind:
        case "shifted":  # far from the origin: products are great, differences small
            vectors += 100
        case "rows alike":  # down to the last bits, and duplicates
            steps = rng.integers(-1, 2, (size, dimension)) * np.float32(2**-23)
            vectors = (vectors[:1] * (1 + steps)).astype(np.float32)
        case "zeros":
            vectors[rng.random(size) < 0.5] = 0
        case "uneven":
            vectors *= np.float32(10) ** rng.integers(-3, 4, (size, 1)).astype(np.float32)
    return vectors


KINDS = ["normal", "shifted", "rows alike", "zeros", "uneven"]


def plain(vectors: np.ndarray, queries: np.ndarray, k: int = 1) -> np.ndarray:
    """All distances in float64, sorted; the lower row at a tie."""
    with np.errstate(over="ignore"):
        rows = []
        for query in np.asarray(queries, np.float64):
            offsets = vectors.astype(np.float64) - query
            rows.append(np.einsum("kd,kd->k", offsets, offsets).argsort(kind="stable")[:k])
    return np.array(rows, np.int64).reshape(len(queries), k)
