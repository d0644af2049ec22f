"""Linear probing: logistic regression on activations that do not change, to its one optimum."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

STEPS = 1000  # of L-BFGS, at most


def fit(head: nn.Linear, features: Tensor, labels: Tensor, strength: float) -> None:
    """Give a head the weights of the least penalized loss.

    A backbone's dimensions differ in scale, so the penalty, 1 / `strength`, is on the weights of
    standardized features (n, h).
    """
    features = features.double()
    mean, scale = features.mean(0), features.std(0, correction=0)
    scale[scale == 0] = 1
    scaled = (features - mean) / scale
    weight = torch.zeros(head.weight.shape, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(head.bias.shape, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        penalty = weight.square().sum() / (2 * strength * len(labels))
        value = cross_entropy(scaled @ weight.T + bias, labels) + penalty
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        head.weight.copy_(weight / scale)
        head.bias.copy_(bias - (weight / scale) @ mean)
