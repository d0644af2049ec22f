"""A limit on the gradient of an auxiliary loss."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm


class Capped:
    """The gradient of a second loss, whose norm on weights shared with the first is limited.

    Args:
        weights: all that learn.
        cap: the limit, as a multiple of the first loss's norm on the shared weights.
    """

    def __init__(self, weights: Iterable[torch.nn.Parameter], cap: float) -> None:
        """Begin at zero."""
        self._weights, self._cap = list(weights), cap
        self._sums: list[Tensor | None] = [None] * len(self._weights)

    def add(self, loss: Tensor) -> None:
        """Add the gradient of a part of the second loss; the first's is computed afterwards."""
        found = torch.autograd.grad(loss, self._weights, retain_graph=True, allow_unused=True)
        self._sums = [
            old if new is None else new if old is None else old + new
            for old, new in zip(self._sums, found, strict=True)
        ]

    def join(self) -> None:
        """Add it to the first loss's, which the weights hold."""
        pairs = [(w, g) for w, g in zip(self._weights, self._sums, strict=True) if g is not None]
        shared = [(w.grad, g) for w, g in pairs if w.grad is not None]
        own, other = (float(get_total_norm(side)) for side in zip(*shared, strict=True))
        factor = min(1.0, self._cap * own / other) if other else 1.0
        for weight, gradient in pairs:
            if weight.grad is None:
                weight.grad = gradient
            else:
                weight.grad += factor * gradient
