"""The limit on the reconstruction's gradient, in closed form and in a step of training."""

from dataclasses import replace

import pytest
import torch

from rapt.tuning.config import Run
from rapt.tuning.gradients import CappedStep
from tests.tuning.test_trainer import gradients


@pytest.mark.parametrize(("cap", "factor"), [(0.5, 0.25), (2.0, 1.0), (10.0, 1.0)])
def test_on_shared_weights_it_is_as_long_as_the_cap_says(cap: float, factor: float) -> None:
    """The task's gradient is (3, 4), the other's (6, 8) there and 7 on a weight of its own."""
    shared, own = (torch.nn.Parameter(torch.zeros(size)) for size in (2, 1))
    capped = CappedStep([shared, own], cap)
    for share in (0.25, 0.75):  # of a batch
        task, other = shared @ torch.tensor([3.0, 4.0]), shared @ torch.tensor([6.0, 8.0])
        capped.add(task, other + 7 * own.sum(), share)
    capped.end()
    assert shared.grad is not None and own.grad is not None
    expected = torch.tensor([3.0, 4.0]) + factor * torch.tensor([6.0, 8.0])
    torch.testing.assert_close(shared.grad, expected)
    assert own.grad.item() == 7


@pytest.mark.parametrize("cap", [0.25, 1e9])
def test_a_cap_shortens_the_reconstruction_on_shared_weights_alone(run: Run, cap: float) -> None:
    whole, task = gradients(run), gradients(replace(run, reconstruction=None))
    assert run.reconstruction
    how = run.reconstruction.model_copy(update={"cap": cap})
    found = gradients(replace(run, reconstruction=how))
    assert found.keys() == whole.keys() > task.keys()
    shared = [name for name in task if not torch.equal(task[name], whole[name])]
    assert shared and set(shared) < set(task)

    def norm(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor] | None = None) -> float:
        pairs = [a[name] - (b[name] if b else 0) for name in shared]
        return torch.cat([pair.flatten() for pair in pairs]).norm().item()

    limit = min(cap * norm(task), norm(whole, task))
    assert norm(found, task) == pytest.approx(limit, rel=1e-3)
    for name in found.keys() - set(shared):
        torch.testing.assert_close(found[name], whole[name])
