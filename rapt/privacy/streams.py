"""Random streams for experiments: one for each example, from a counter-based generator."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The generator that belongs to a name, whatever else was drawn before it or runs beside it.

    Philox, keyed by the sha256 of the root seed and the names (such as seed index, task, example
    id), so a draw depends neither on batches and order nor on workers and machines. Repeatable,
    hence for experiments alone: whoever knows the seed can replay the noise.
    """
    key = hashlib.sha256("\0".join(map(str, (seed, *names))).encode()).digest()[:16]
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key, np.uint64)))
