"""Scores and features of each text of a split, without gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rapt.tuning.batches import by_length, each_row
from rapt.tuning.inputs import Batch, Split, collate, pooled
from rapt.tuning.model import TaskModel


def logits(model: TaskModel, split: Split, pad: int, batch_size: int) -> Tensor:
    """Compute the `scores` of every text of a split, on the CPU: (n, outputs)."""
    return read_all(model, split, pad, batch_size, model.scores)


def features(model: TaskModel, split: Split, pad: int, batch_size: int) -> Tensor:
    """Compute the task head's input for every text of a privatized split, (n, h) on the CPU."""
    return read_all(model, split, pad, batch_size, lambda states, batch: pooled(states, batch.text))


@torch.inference_mode()
def read_all(
    model: TaskModel,
    split: Split,
    pad: int,
    batch_size: int,
    of: Callable[[Tensor, Batch], Tensor],
) -> Tensor:
    """Apply `of` to the activations of every text, one row for each, float32 on the CPU."""

    def read(rows: list[int]) -> Tensor:
        batch = collate(split, rows, pad).to(model.place)
        return of(model.activations(batch), batch).float()

    model.eval()
    # Each batch is read while the GPU computes others: it is waited for once, at the end.
    rows = each_row(by_length(split.lengths, batch_size), read, "train.max_tokens")
    return torch.stack(rows).cpu()
