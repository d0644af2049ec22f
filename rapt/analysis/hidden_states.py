"""Hidden states of tuned models, layer by layer, against those of the model of clean text.

As in RAPT's Figure 9: the shift of each layer's states by privatization, also as a 2-D projection.
"""

from __future__ import annotations

from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from rapt.tuning.batches import by_length
from rapt.tuning.inputs import Split, collate, pooled
from rapt.tuning.model import TaskModel

BATCH = 32
# Digits of a point's coordinates, enough to draw it.
DIGITS = 4


@torch.no_grad()
def hidden_states(model: TaskModel, split: Split, pad: int) -> Tensor:
    """Compute each layer's mean state over each text's own tokens, float32 (L + 1, n, h).

    Layer 0 is the input of the first layer.

    Args:
        model: on any device.
        split: the n texts, as the model was tuned on them.
        pad: the backbone's padding token.
    """
    model.eval()
    bare: Any = model.backbone
    if isinstance(bare, PeftModel):
        bare = bare.get_base_model()
    seen: list[Tensor] = []
    hooks = (
        bare.register_forward_pre_hook(_asking, with_kwargs=True),
        bare.register_forward_hook(lambda _module, _inputs, out: seen.extend(out.hidden_states)),
    )
    found = None
    try:
        for rows in by_length(split.lengths, BATCH):
            seen.clear()
            batch = collate(split, rows, pad).to(model.place)
            model.activations(batch)
            # Virtual tokens precede the text's own.
            own = [states[:, -batch.tokens.shape[1] :].float() for states in seen]
            layers = torch.stack([pooled(states, batch.text).cpu() for states in own])
            if found is None:
                found = torch.empty(len(layers), len(split), layers.shape[2])
            found[:, rows] = layers
    finally:
        for hook in hooks:
            hook.remove()
    assert found is not None  # a split has texts
    return found


def _asking(_module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Request every layer's output: PEFT and prefixes do not pass such a request on."""
    return args, kwargs | {"output_hidden_states": True}


def distances(clean: Tensor, own: Tensor) -> list[float]:
    """Compute, for each layer, the mean distance of a text's state from its clean state.

    Args:
        clean: states in the model of clean text, (L + 1, n, h).
        own: states in another model, of the same texts as its release has them, (L + 1, n, h).
    """
    return (own - clean).norm(dim=2).mean(1).tolist()


def spreads(clean: Tensor) -> list[float]:
    """Compute, for each layer, the mean distance between different texts: a scale for `distances`.

    Args:
        clean: states of two texts or more, (L + 1, n, h).
    """
    return [torch.pdist(layer).mean().item() for layer in clean]


def plane(clean: Tensor, own: Tensor, count: int) -> list[dict[str, list[list[float]]]]:
    """Project, for each layer, the first `count` texts onto the two principal components.

    The components are those of the clean states alone, so that all comparisons with the same clean
    model share their axes. The states are as of `distances`.
    """
    return [_plane(*layer, count) for layer in zip(clean, own, strict=True)]


def _plane(clean: Tensor, own: Tensor, count: int) -> dict[str, list[list[float]]]:
    centre = clean.double().mean(0)
    axes = torch.linalg.svd(clean.double() - centre, full_matrices=False).Vh[:2]
    # The sign of an axis is arbitrary: its largest component is made positive.
    axes = axes * axes.take_along_dim(axes.abs().argmax(1, keepdim=True), 1).sign()

    def drawn(states: Tensor) -> list[list[float]]:
        points = (states[:count].double() - centre) @ axes.T
        return [[round(x, DIGITS) for x in point] for point in points.tolist()]

    return {"clean": drawn(clean), "own": drawn(own)}
