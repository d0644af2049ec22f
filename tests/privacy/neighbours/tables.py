"""Tables to search, by each way of scoring."""

from __future__ import annotations

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
