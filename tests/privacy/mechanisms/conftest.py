"""Small spaces whose laws are known."""

import numpy as np
import pytest

from rapt.privacy.mechanisms import Space


def space_of(vectors: np.ndarray) -> Space:
    """A space whose words are the less frequent the later they stand."""
    return Space(vectors.astype(np.float32), 1 / np.arange(1, len(vectors) + 1))


@pytest.fixture(scope="session")
def plane() -> Space:
    """Twelve words in two dimensions."""
    return space_of(np.random.default_rng(3).standard_normal((12, 2)))


@pytest.fixture(scope="session")
def line() -> Space:
    """Three words on a line: Voronoi cells with ends at ½ and 1½."""
    return space_of(np.array([[0.0], [1.0], [2.0]]))
