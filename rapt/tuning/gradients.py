"""The gradient of a training step: how the losses of a batch's parts become what weights hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from rapt.utils.errors import RaptError


def finest(device: torch.device) -> torch.dtype:
    """Return the widest type of a device's numbers: MPS lacks that of Python's."""
    return torch.float32 if device.type == "mps" else torch.float64


class GradientStep(ABC):
    """The gradient of one step, gathered over the parts of its batch that memory has room for.

    Args:
        weights: all that learn; their gradients are None at first.

    Attributes:
        texts: of the part that is added next.
    """

    texts = 0

    def __init__(self, weights: Iterable[torch.nn.Parameter]) -> None:
        """Begin at zero."""
        self.weights = list(weights)

    @abstractmethod
    def add(self, task: Tensor, other: Tensor | None, share: float) -> None:
        """Add the gradient of a part.

        Args:
            task: mean loss of the task over the part's texts.
            other: the auxiliary task's, times its weight; None: there is none.
            share: the part's share of the batch's texts.
        """

    def held(self) -> list[Tensor | None]:
        """Return what the parts added up to, for each weight: once, or several times in turn.

        Only a step that returns all of it can be computed on several cards.
        """
        name = type(self).__name__
        raise RaptError(f"RAPT_CARDS: got {name}, which is of one card alone, expected 1.")

    def hold(self, sums: Sequence[Tensor | None]) -> None:
        """Take the sums over all cards in place of what `held` returned."""
        for weight, gradient in zip(self.weights, sums, strict=True):
            weight.grad = gradient

    def end(self) -> None:  # noqa: B027, most have nothing to do
        """Finish the gradient, of which all parts were added: the optimizer's step follows."""


class PlainStep(GradientStep):
    """The gradient of the losses' sum."""

    def add(self, task: Tensor, other: Tensor | None, share: float) -> None:
        """Let the weights' gradients add up."""
        (share * (task if other is None else task + other)).backward()

    def held(self) -> list[Tensor | None]:
        """Return the gradients."""
        return [weight.grad for weight in self.weights]


class CappedStep(GradientStep):
    """The gradient of a second loss, whose norm on weights shared with the first is limited.

    Args:
        weights: all that learn.
        cap: the limit, as a multiple of the first loss's norm on the shared weights.
    """

    def __init__(self, weights: Iterable[torch.nn.Parameter], cap: float) -> None:
        """Begin at zero."""
        super().__init__(weights)
        self._cap = cap
        self._sums: list[Tensor | None] = [None] * len(self.weights)

    def add(self, task: Tensor, other: Tensor | None, share: float) -> None:
        """Keep the second loss's gradient apart."""
        if other is not None:
            found = torch.autograd.grad(
                share * other, self.weights, retain_graph=True, allow_unused=True
            )
            self._sums = [
                old if new is None else new if old is None else old + new
                for old, new in zip(self._sums, found, strict=True)
            ]
        (share * task).backward()

    def held(self) -> list[Tensor | None]:
        """Return the gradients of the first loss, then those of the second."""
        return [*(weight.grad for weight in self.weights), *self._sums]

    def hold(self, sums: Sequence[Tensor | None]) -> None:
        """Take the sums over all cards."""
        super().hold(sums[: len(self.weights)])
        self._sums = list(sums[len(self.weights) :])

    def end(self) -> None:
        """Add the second loss's gradient to the first's, which the weights hold."""
        pairs = [(w, g) for w, g in zip(self.weights, self._sums, strict=True) if g is not None]
        shared = [(w.grad, g) for w, g in pairs if w.grad is not None]
        if shared:
            own, other = (get_total_norm(side) for side in zip(*shared, strict=True))
            own, other = own.to(finest(own.device)), other.to(finest(own.device))
            factor = torch.where(other > 0, self._cap * own / other, 1.0).clamp(max=1.0)
        for weight, gradient in pairs:
            if weight.grad is None:
                weight.grad = gradient
            else:
                weight.grad += factor * gradient
