"""Channels over two words, for attackers that learn from pairs."""

from __future__ import annotations

import numpy as np
import pytest

from rapt.attacks.base import Pairs, Public, Release
from rapt.attacks.trained_inversion import Autoencoder, MlpInversion
from rapt.privacy.categories import VERBATIM
from rapt.text.table import EmbeddingTable

ATTACKER = MlpInversion(
    type="mlp-inversion", hidden=32, epochs=20, learning_rate=0.01, pairs=10_000
)
AUTOENCODER = Autoencoder(
    type="autoencoder", hidden=64, epochs=60, learning_rate=0.01, pairs=10_000
)


@pytest.fixture
def public(table: EmbeddingTable) -> Public:
    """Public knowledge: the table."""
    return Public(table, np.full(len(table.words), VERBATIM), None)


def texts(matrix: np.ndarray, seed: int, n: int = 3000) -> Pairs:
    """Words a and b, equally often, and their releases by the channel."""
    rng = np.random.default_rng(seed)
    words = rng.integers(2, size=n)
    released = [rng.choice(len(matrix[w]), p=matrix[w]) for w in words]
    names = ("nouna", "nounb", "verba")
    return Pairs([[names[w]] for w in words], Release([[names[y]] for y in released]))
