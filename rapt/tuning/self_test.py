"""A test of an adapted backbone before it is tuned, as any model may be one."""

from __future__ import annotations

from typing import Any

import torch

from rapt.tuning import backbones
from rapt.tuning.inputs import Split, collate
from rapt.utils.errors import RaptError

TOLERANCE = 1e-2  # of activations of about 1; bfloat16 has three digits
LENGTHS = (2, 6)  # tokens of the test's texts


def check(model: Any, pad: int) -> None:
    """Check that padding changes nothing, and that what learns has an effect.

    Args:
        model: the backbone with its adapter.
        pad: its padding token.

    Raises:
        RaptError: it does not read the test's texts, or one of these does not hold.
    """
    was_training = model.training
    try:
        _check(model.eval(), pad, model.config.model_type)
    finally:
        model.train(was_training)


def _check(model: Any, pad: int, kind: str) -> None:
    texts = [[3 + (place % 2) for place in range(length)] for length in LENGTHS]
    flags = [[False] * length for length in LENGTHS]
    plain = [[-1] * length for length in LENGTHS]
    types = [[0] * length for length in LENGTHS]
    split = Split(texts, types, plain, flags, [0, 0], [0, 0])
    place = next(model.parameters()).device
    try:
        alone = backbones.activations(model, collate(split, [0], pad).to(place))
        with torch.no_grad():
            beside = backbones.activations(model, collate(split, [0, 1], pad).to(place))
    except (AttributeError, IndexError, KeyError, NotImplementedError, TypeError, ValueError) as e:
        line = " ".join(str(e).split())
        raise RaptError(
            f"the backbone: got {kind}, which fails on a short text ({type(e).__name__}: {line}), "
            "expected a model that reads tokens. Take another."
        ) from e
    change = (beside[:1, : LENGTHS[0]] - alone).abs().max()
    if change > TOLERANCE * alone.abs().max().clamp(min=1):
        raise RaptError(
            f"the backbone: got {kind}, whose activations change with padding, expected one that "
            "ignores it. Take another."
        )
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    if learning:
        # Not their sum, which a final norm keeps constant.
        weights = torch.linspace(0, 1, alone.numel(), device=alone.device).reshape(alone.shape)
        found = torch.autograd.grad((alone * weights).sum(), learning, allow_unused=True)
        if not any(each is not None and each.any() for each in found):
            raise RaptError(
                f"tuner: got one whose weights do not change what {kind} reads, expected an "
                "effect. Take another."
            )
