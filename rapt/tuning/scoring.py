"""Scores and features of each text of a split, without gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rapt.tuning.batches import by_length
from rapt.tuning.inputs import Batch, Split, collate, pooled
from rapt.tuning.model import Classifier
from rapt.utils.device import out_of_memory
from rapt.utils.errors import RaptError


def logits(model: Classifier, split: Split, pad: int, batch_size: int) -> Tensor:
    """Compute the `scores` of every text of a split, on the CPU: (n, classes), or more columns."""
    return read_all(model, split, pad, batch_size, model.scores)


def features(model: Classifier, split: Split, pad: int, batch_size: int) -> Tensor:
    """Compute the task head's input for every text of a privatized split, (n, h) on the CPU."""
    return read_all(model, split, pad, batch_size, lambda states, batch: pooled(states, batch.text))


@torch.inference_mode()
def read_all(
    model: Classifier,
    split: Split,
    pad: int,
    batch_size: int,
    of: Callable[[Tensor, Batch], Tensor],
) -> Tensor:
    """Apply `of` to the activations of every text, one row for each, float32 on the CPU."""

    def read(rows: list[int]) -> Tensor:
        """Compute the rows of a batch, in as many parts as memory requires."""
        try:
            batch = collate(split, rows, pad).to(model.head.weight.device)
            return of(model.activations(batch), batch).float().cpu()
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if len(rows) == 1:
                raise RaptError(
                    "got a device out of memory at one text, expected room for it. "
                    "Lower max_tokens."
                ) from None
        half = len(rows) // 2
        return torch.cat([read(rows[:half]), read(rows[half:])])

    model.eval()
    batches = list(by_length(split.lengths, batch_size))
    found = torch.cat([read(rows) for rows in batches])
    inverse = torch.tensor([row for rows in batches for row in rows]).argsort()
    return found[inverse]
