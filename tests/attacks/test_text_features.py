"""Features of texts: hidden states of each text alone, of words or of vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rapt.attacks.base import Release
from rapt.attacks.encoders import hidden_states
from rapt.utils.errors import RaptError
from tests.tuning.conftest import backbone as backbone


def test_hidden_states_are_those_of_each_text_alone(backbone: Path) -> None:
    texts = [["good", "film"], ["so", "unlikely", "plot"], ["bad"]]
    together = hidden_states(backbone, Release(texts), 16)
    for state, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(
            state, hidden_states(backbone, Release([text]), 16)[0], atol=1e-5
        )
    assert together.shape == (3, 32)
    assert not np.allclose(together[0], together[2])


def test_hidden_states_take_released_vectors_for_words(backbone: Path) -> None:
    rng = np.random.default_rng(0)
    words = [["good", "film"]]
    one, other = (rng.standard_normal((2, 32)).astype(np.float32) for _ in range(2))
    states = [hidden_states(backbone, Release(words, vectors), 16) for vectors in (one, one, other)]
    np.testing.assert_array_equal(states[0], states[1])
    assert not np.allclose(states[0], states[2])
    with pytest.raises(RaptError, match="got dimension 8, expected 32"):
        hidden_states(backbone, Release(words, one[:, :8]), 16)
