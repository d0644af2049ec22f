"""A client of a federated training: steps on its own texts, and how they change the weights."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rapt.federated.laws import Weights
from rapt.tuning.checkpoints import NoCheckpoint, give
from rapt.tuning.config import Run
from rapt.tuning.inputs import Split
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Federated


def local(run: Run, how: Federated) -> Run:
    """Return the run of a client's steps in one round, at a constant learning rate."""
    steps = {"epochs": how.epochs, "schedule": "constant", "warmup": 0.0}
    return replace(run, train=run.train.model_copy(update=steps), fitting=None)


def learned(trainer: Trainer) -> Weights:
    """Return a copy of all that learns: the adapter and the heads, no weight of the backbone."""
    return {name: weight.detach().cpu().clone() for name, weight in trainer.learning().items()}


def update(trainer: Trainer, split: Split, weights: Weights, seed: int) -> dict[str, Tensor]:
    """Return how the weights change by a client's steps on its texts.

    Args:
        trainer: of a `local` run.
        split: the client's texts.
        weights: the server's, float32.
        seed: of the order and of dropout.
    """
    give(trainer.learning(), weights)
    torch.manual_seed(seed)
    trainer.take_steps(split, NoCheckpoint())
    return {name: value - weights[name] for name, value in learned(trainer).items()}
