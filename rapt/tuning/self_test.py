"""A test of an adapted backbone before it is tuned, as any model may be one."""

from __future__ import annotations

from typing import Any

import torch

from rapt.tuning.backbones import reads_alone, translated, translates, virtual_tokens
from rapt.tuning.inputs import Split, collate
from rapt.tuning.model import TaskModel
from rapt.utils.device import out_of_memory
from rapt.utils.errors import RaptError, described

TOLERANCE = 3e-2  # of activations of about 1; bfloat16 has three digits, and long texts add up
FOR_MOST = ("full", "linear-probe", "lora", "p-tuning", "prompt-tuning")
LONG = 6  # tokens of the longer text, at least


def check(model: TaskModel, pad: int, longest: int = LONG) -> None:
    """Check that padding changes nothing, and that what learns has an effect.

    Args:
        model: the adapted backbone with its head, where it will learn.
        pad: the backbone's padding token.
        longest: tokens of the longest text that it will read. BigBird reads long texts otherwise.

    Raises:
        RaptError: the backbone does not read the test's texts, or one of these does not hold.
    """
    was_training = model.training
    try:
        _check(model.eval(), pad, longest)
    finally:
        model.train(was_training)


def _check(model: TaskModel, pad: int, longest: int) -> None:
    kind = model.backbone.config.model_type
    # Two tokens that every vocabulary has and that are no padding.
    tokens = [token for token in range(3, 6) if token != pad]
    longest = max(LONG, longest)
    lengths = (longest // 2, longest)
    texts = [[tokens[place % 2] for place in range(length)] for length in lengths]
    apart = [text[:LONG] for text in texts] if translates(model.backbone) else None
    split = Split.of_lists(texts, targets=apart)
    place = model.place
    batch = collate(split, [0], pad).to(place)
    try:
        with torch.no_grad():
            # First, as BigBird never reads sparsely again after a short text.
            beside = model.own(model.activations(collate(split, [0, 1], pad).to(place)))
        states = model.activations(batch)
        alone = model.own(states)
        model.loss(states.detach(), batch)
    # Each foreign model fails in its own way: in its arguments, its shapes or its tables.
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, RuntimeError) and out_of_memory(error):
            raise
        line = described(error)
        if longest > LONG:
            _check(model, pad, LONG)  # which tells what fails, if not the length
            raise RaptError(
                f"train.max_tokens: got texts of up to {longest} tokens, on which {kind} fails "
                f"({line}), expected shorter ones. Lower it."
            ) from error
        adapted: Any = model.backbone
        if virtual_tokens(adapted) and reads_alone(adapted, batch):
            tuner = adapted.active_peft_config.peft_type.value.lower().replace("_", "-")
            others = ", ".join(name for name in FOR_MOST if name != tuner)
            raise RaptError(
                f"tuner: got {tuner} for {kind}, which fails with it ({line}), expected one of "
                f"{others}."
            ) from error
        raise RaptError(
            f"the backbone: got {kind}, which fails on a short text ({line}), expected a model "
            "that reads tokens. Take another."
        ) from error
    change = (beside[:1, : lengths[0]] - alone).abs().max()
    if change > TOLERANCE * alone.abs().max().clamp(min=1):
        raise RaptError(
            f"the backbone: got {kind}, whose activations change with padding, expected one that "
            "ignores it. Take another."
        )
    learning = [weight for weight in model.backbone.parameters() if weight.requires_grad]
    if learning:
        outputs = translated(model.backbone, states, batch) if apart else alone
        # Not their sum, which a final norm keeps constant.
        weights = torch.linspace(0, 1, outputs.numel(), device=outputs.device)
        weights = weights.reshape(outputs.shape)
        gradients = torch.autograd.grad((outputs * weights).sum(), learning, allow_unused=True)
        if not any(each is not None and each.any() for each in gradients):
            raise RaptError(
                f"tuner: got one whose weights do not change what {kind} reads, expected an "
                "effect. Take another."
            )
