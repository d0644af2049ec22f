"""How many seeds of a cell have room on a card side by side."""

from __future__ import annotations

from math import prod

import torch
from safetensors import safe_open

from rapt import models, paths
from rapt.tuning.config import Run
from rapt.utils import files, process
from rapt.utils.device import device

# Bytes of a process beside its tensors: CUDA's context, cuBLAS, and what the allocator keeps.
CONTEXT = 1 << 30
# Bytes of a weight that learns, its gradient and AdamW's two moments; of a frozen NF4 one at most.
LEARNING, NF4 = 16, 1
# Bytes of a logit, its softmax and its gradient.
LOGIT = 12


def seeds_that_fit(run: Run, most: int) -> int:
    """Return how many seeds to train side by side: on a card by half of its free memory.

    In a flow the stages that share a card divide its memory and the cores.

    Args:
        run: one of the seeds.
        most: as many seeds, and cores.
    """
    where = device()
    if where.type != "cuda":
        return most if where.type == "cpu" else 1
    free, _ = torch.cuda.mem_get_info(where)
    half = free // 2 // process.per_gpu()
    return max(1, min(most // process.per_gpu(), half // bytes_of_seed(run)))


def bytes_of_seed(run: Run) -> int:
    """Estimate the memory that training a seed takes, for a step of the longest texts.

    A layer keeps 17 numbers for each of a token's h dimensions, and 2.5 for each pair of tokens and
    head (Korthikanti et al., 2022, equation 1).
    """
    config = models.config(run.backbone).get_text_config()
    statement = files.read_json(paths.statement(run.release))
    plain = (statement["plain_tokens"] or {"length": 0})["length"]
    length = run.train.max_tokens + plain + getattr(run.tuner, "tokens", 0)
    tokens = run.train.batch_size * length
    width = 2 if run.train.precision == "bf16" else 4
    weights = LEARNING if run.frozen is None else NF4 if run.quantize else width

    hidden, layers = config.hidden_size, config.num_hidden_layers
    heads = getattr(config, "num_attention_heads", 0)
    layer = tokens * (17 * hidden + 5 * heads * length // 2)
    numbers = layer + layers * tokens * hidden
    if not run.train.gradient_checkpointing:
        numbers = layers * layer
    logits = tokens * config.vocab_size if run.kind.is_language_model else 0
    if run.reconstruction:
        logits += run.train.batch_size * plain * (statement["vocabulary"] or 0)
    return CONTEXT + weights * _parameters(run) + width * numbers + LOGIT * logits


def _parameters(run: Run) -> int:
    """Count the backbone's weights, by the headers of its files."""
    count = 0
    for path in sorted(run.backbone.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            count += sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return count
