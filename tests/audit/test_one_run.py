"""The audit of a training in one run: its bound, and DP-SGD sound and with planted faults."""

from collections.abc import Sequence
from itertools import chain, islice
from math import ceil
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from rapt.audit.one_run import lower_bound
from rapt.tuning import private
from rapt.tuning.accounting import noise_for
from rapt.tuning.private import PrivateGradients, PrivateStep
from rapt.tuning.strategies import Private

CANARIES, GUESSES, EPSILON, DELTA = 2000, 200, 1.0, 1e-7
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


def strategy_of(
    model: torch.nn.Module, steps: int, units: int, batch: int, texts: int = 1
) -> PrivateGradients:
    """For so many canaries, and so many of them in a batch; with more texts than one, authors."""
    run = SimpleNamespace(
        train=SimpleNamespace(batch_size=batch * texts, gradient_checkpointing=False),
        tuner=SimpleNamespace(by_layer=True),
        denoising=None,
    )
    trainer: Any = SimpleNamespace(run=run, steps=steps, parts=model, failed=None)
    how = Private(epsilon=EPSILON, delta=DELTA, unit="author" if texts > 1 else "text")
    authors = [row // texts for row in range(units * texts)] if texts > 1 else None
    return PrivateGradients(how, trainer, units * texts, authors)


def shown(
    seed: int, steps: int = 20, batch: int = 500, texts: int = 1, in_order: bool = False
) -> float:
    """The largest ε that one run shows, by the sum of the steps' gradients or by their spread.

    Args:
        seed: of coins, batches and noise.
        steps: of the training.
        batch: canaries in a step, on average.
        texts: of each canary; an author has more than one.
        in_order: whether the attacker takes batches for consecutive texts, and else for drawn
            ones. It knows which texts stand before a canary.
    """
    torch.manual_seed(seed)
    model, inside = Canaries(), torch.rand(CANARIES) < 0.5
    there = inside.nonzero().flatten().tolist()
    strategy = strategy_of(model, steps, len(there), batch, texts)
    rows, order = len(there) * texts, torch.Generator().manual_seed(seed)
    epochs = (strategy.batches([1] * rows, strategy.size, order) for _ in range(steps))
    seen = []
    for drawn in islice(chain.from_iterable(epochs), steps):
        step = strategy.step(model.parameters())
        for part in strategy.parts(drawn, max(1, len(drawn))):
            step.texts = len(part)
            step.add(model([there[row // texts] for row in part]), None, 1.0)
        step.end()
        seen.append(-model.layer.weight.grad[0].clone())  # type: ignore[index]
    sums, noise = strategy.expected * torch.stack(seen), strategy.noise
    chance = torch.full_like(sums, strategy.rate)
    if in_order:
        place = (inside.long().cumsum(0) - inside.long()) // batch
        chance = (place == torch.arange(steps)[:, None] % ceil(len(there) / batch)).float()
    # How much likelier each sum is if the canary was drawn with that chance.
    likelihood = (1 - chance + chance * ((sums - 0.5) / noise**2).exp()).log().sum(0)
    bounds = []
    for scores in (likelihood, sums.std(0)):  # the spread betrays noise that is used again
        right = int(inside[scores.topk(GUESSES).indices].sum())
        bounds.append(lower_bound(CANARIES, GUESSES, right, DELTA, FALSE_ALARM / 2))
    return max(bounds)


# Of authors four texts each; an attack on the order of batches needs small ones.
SOUND: dict[str, dict[str, Any]] = {
    "texts": {},
    "authors": {"batch": 100, "texts": 4},
    "small batches": {"steps": 400, "batch": 10, "in_order": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("how", SOUND)
def test_a_sound_training_shows_no_more_than_it_may(how: str) -> None:
    """False alarms are at most 1 of 1,000 by the bound's own confidence."""
    assert shown(0, **SOUND[how]) <= EPSILON


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
    def solved(epsilon: float, delta: float, rate: float, steps: int, **_: bool) -> float:
        return noise_for(epsilon, delta, rate / 100, steps)

    patch.setattr(private, "noise_for", solved)


def fixed(patch: pytest.MonkeyPatch) -> None:
    def batches(self: PrivateGradients, lengths: Sequence[int], size: int, _: Any) -> Any:
        yield from (range(at, min(at + size, len(lengths))) for at in range(0, len(lengths), size))

    patch.setattr(PrivateGradients, "batches", batches)


def text_by_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrivateGradients, "parts", lambda self, rows, size: ([row] for row in rows))


FAULTS = {
    "nothing is clipped": (unscaled, "texts"),
    "the mean is clipped": (after_averaging, "texts"),
    "noise is used again": (once_drawn, "texts"),
    "no noise": (silent, "texts"),
    "accounted at another rate": (rare, "texts"),
    "batches are fixed": (fixed, "small batches"),
    "each text of an author is clipped by itself": (text_by_text, "authors"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_shown(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, how = FAULTS[fault]
    plant(monkeypatch)
    assert shown(0, **SOUND[how]) > EPSILON


@pytest.mark.parametrize("over_tokens", [False, True])
def test_a_mean_over_the_tokens_of_a_batch_is_shown(over_tokens: bool) -> None:
    """A long text makes all others count less then, which no clipping of its own gradient stops.

    One step on 50 short texts, and on a text of a thousand tokens or not, again and again.
    """
    torch.manual_seed(0)
    layer, short, inside = torch.nn.Linear(1, 1, bias=False), 50, torch.rand(1000) < 0.5
    strategy = strategy_of(layer, 20, short, short)
    strategy.noise = noise_for(EPSILON, DELTA, 1.0, 1)
    answers = []
    for there in inside.tolist():
        tokens = torch.tensor([1.0] * short + [1000.0] * there)
        share = tokens.sum() / len(tokens) if over_tokens else tokens
        step = strategy.step(layer.parameters())
        step.texts = len(tokens)
        step.add((-0.5 * layer(tokens[:, None])[:, 0] / share).mean(), None, 1.0)
        step.end()
        assert layer.weight.grad is not None
        answers.append(layer.weight.grad.item())
    scores = torch.tensor(answers) * (-1 if over_tokens else 1)
    order = scores.sort(descending=not over_tokens).indices
    guessed = order[:GUESSES]
    right = int(inside[guessed].sum())
    assert (lower_bound(1000, GUESSES, right, DELTA, FALSE_ALARM) > EPSILON) == over_tokens
