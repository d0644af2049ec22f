"""Random streams: repeatable ones for experiments, unrepeatable ones for releases."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The generator that belongs to a name, whatever else was drawn before it or runs beside it.

    Philox, keyed by the sha256 of the root seed and the names (such as seed index, task, example
    id). So a draw depends neither on batches and order nor on workers and machines. Repeatable,
    hence for experiments alone: whoever knows the seed can replay the noise.
    """
    key = hashlib.sha256("\0".join(map(str, (seed, *names))).encode()).digest()[:16]
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key, np.uint64)))


Stream = Callable[[], np.random.Generator]  # makes the generator of a text


def fresh() -> np.random.Generator:
    """A generator for a release: ChaCha20 under a new key of 256 bits from the operating system.

    Take a new one for each text: processes that fork or start again then cannot repeat noise.
    """
    from randomgen import ChaCha  # only releases need it

    return np.random.Generator(ChaCha(key=int.from_bytes(os.urandom(32), "little")))
