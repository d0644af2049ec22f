"""The audit of a training in one run: its bound, and DP-SGD sound and with planted faults."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from rapt.audit.one_run import lower_bound
from rapt.tuning import private
from rapt.tuning.accounting import noise_for
from rapt.tuning.private import PrivateGradients, PrivateStep
from rapt.tuning.tuners import Private

CANARIES, GUESSES, STEPS, BATCH, EPSILON, DELTA = 2000, 200, 20, 500, 1.0, 1e-9
FALSE_ALARM = 1e-3


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "expected"),
    [
        (100, 100, 100, 0, 3.4930),
        (1000, 1000, 1000, 0, 5.8091),
        (1000, 100, 90, 0, 1.6308),
        (1000, 100, 90, 1e-5, 1.6261),
        (1000, 1000, 600, 0, 0.2972),
        (1000, 200, 200, 1e-5, 4.1665),
        (1000, 100, 50, 0, 0.0),
    ],
)
def test_the_bound_has_the_reference_values(
    canaries: int, guesses: int, right: int, delta: float, expected: float
) -> None:
    """Those of jax-privacy's formulas, at confidence 95 %."""
    assert lower_bound(canaries, guesses, right, delta) == pytest.approx(expected, abs=5e-4)


class Canaries(torch.nn.Module):
    """A weight for each canary, along which its gradient is, a hundred times too long."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(CANARIES, 1, bias=False)

    def forward(self, rows: Sequence[int]) -> Tensor:
        mean: Tensor = -self.layer(100 * torch.eye(CANARIES)[rows]).mean()
        return mean


def shown(seed: int) -> float:
    """The largest ε that one run shows, by the sum of the steps' gradients or by their spread."""
    torch.manual_seed(seed)
    model, inside = Canaries(), torch.rand(CANARIES) < 0.5
    run = SimpleNamespace(
        train=SimpleNamespace(batch_size=BATCH, gradient_checkpointing=False),
        tuner=SimpleNamespace(by_layer=True),
        denoising=None,
    )
    trainer: Any = SimpleNamespace(run=run, steps=STEPS, parts=model, failed=None)
    strategy = PrivateGradients(Private(epsilon=EPSILON, delta=DELTA), trainer, CANARIES // 2)
    texts = inside.nonzero().flatten().tolist()
    order = torch.Generator().manual_seed(seed)
    seen = []
    for rows in strategy.batches([1] * len(texts), BATCH, order):
        step = strategy.step(model.parameters())
        if drawn := [texts[row] for row in rows]:
            step.texts = len(drawn)
            step.add(model([*drawn]), None, 1.0)
        step.end()
        seen.append(-model.layer.weight.grad[0].clone())  # type: ignore[index]
    sums = BATCH * torch.stack(seen)
    rate, noise = strategy.rate, strategy.noise
    # How much likelier each sum is if the canary was drawn with probability `rate`.
    likelihood = (1 - rate + rate * ((sums - 0.5) / noise**2).exp()).log().sum(0)
    bounds = []
    for scores in (likelihood, sums.std(0)):  # the spread betrays noise that is used again
        right = int(inside[scores.topk(GUESSES).indices].sum())
        bounds.append(lower_bound(CANARIES, GUESSES, right, DELTA, FALSE_ALARM / 2))
    return max(bounds)


@pytest.mark.parametrize("seed", range(3))
def test_a_sound_training_shows_no_more_than_it_may(seed: int) -> None:
    """False alarms are at most 1 of 1,000 by the bound's own confidence."""
    assert shown(seed) <= EPSILON


def unscaled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(private, "scaled", lambda norms, *_: torch.ones_like(norms))


def after_averaging(patch: pytest.MonkeyPatch) -> None:
    def add(step: PrivateStep, task: Tensor, *_: Any) -> None:
        task.backward()
        (weight,) = step.weights
        assert weight.grad is not None
        step._sums[0] += step.texts * weight.grad / weight.grad.norm().clamp(min=1.0)

    patch.setattr(PrivateStep, "add", add)


def once_drawn(patch: pytest.MonkeyPatch) -> None:
    end = PrivateStep.end

    def again(step: PrivateStep) -> None:
        torch.manual_seed(7)
        end(step)

    patch.setattr(PrivateStep, "end", again)


def silent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch, "randn_like", torch.zeros_like)


def rare(patch: pytest.MonkeyPatch) -> None:
    def solved(epsilon: float, delta: float, rate: float, steps: int) -> float:
        return noise_for(epsilon, delta, rate / 100, steps)

    patch.setattr(private, "noise_for", solved)


FAULTS = {
    "nothing is clipped": unscaled,
    "the mean is clipped": after_averaging,
    "noise is used again": once_drawn,
    "no noise": silent,
    "accounted at another rate": rare,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_shown(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That batches are drawn and not shuffled is tested beside the training: one run hides it."""
    FAULTS[fault](monkeypatch)
    assert shown(0) > EPSILON
