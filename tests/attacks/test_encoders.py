"""The training that attackers share, where each step is known, and the states that they read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rapt.attacks import encoders
from rapt.attacks.base import Release
from rapt.attacks.encoders import hidden_states
from rapt.utils import files
from rapt.utils.errors import RaptError


def test_the_learning_rate_falls_to_0_where_no_terminal_shows_the_progress() -> None:
    """A constant gradient moves Adam's weights by the learning rate, less 1 % of decay."""
    model, seen = nn.Linear(1, 1, bias=False), []
    nn.init.zeros_(model.weight)

    def loss(_: None) -> Tensor:
        seen.append(model.weight.item())
        return -model.weight.sum()

    encoders.fine_tune("any", model, [(None, 2)] * 5, loss, 0.1, total=8, unit="text")
    steps = torch.tensor([*seen, model.weight.item()]).diff()
    torch.testing.assert_close(steps, torch.tensor([0.1, 0.075, 0.05, 0.025, 0]), rtol=0, atol=1e-3)


def test_a_loss_that_is_no_number_ends_in_a_line() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(RaptError, match=r"any: got a loss .* Lower learning_rate \(0.1\)"):
        encoders.fine_tune("any", model, [(0, 1)], lambda _: torch.tensor(torch.nan), 0.1, 1, "x")


def test_an_encoder_is_loaded_by_its_first_layers(backbone: Path, tmp_path: Path) -> None:
    assert [len(encoders.load(backbone, n).encoder.layer) for n in (1, 9, None)] == [1, 2, 2]
    files.write_json(tmp_path / "config.json", {"model_type": "gpt2"})
    with pytest.raises(RaptError, match="an attacker's model_type: got 'gpt2', expected one of"):
        encoders.load(tmp_path)


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
