"""The encoders that attackers read texts with: loading, fine-tuning, hidden states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from transformers import AutoModel

from rapt import models
from rapt.attacks.base import Release, Vectors
from rapt.tuning.backbones import check_vectors
from rapt.tuning.inputs import Split, numbered, tokenized
from rapt.tuning.loading import load_model, load_tokenizer
from rapt.tuning.model import Classifier
from rapt.tuning.scoring import features
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed
from rapt.utils.progress import counter

T = TypeVar("T")
# A decoder reads a word without the words after it.
ENCODERS = ("bert", "roberta", "mpnet")
BATCH = 32  # texts read at once


def load(folder: Path, layers: int | None = None, auto: Any = AutoModel, **how: Any) -> Any:
    """Load an encoder in float32, its first layers or all; `how` is for `models.load`.

    Raises:
        RaptError: the model is no encoder.
    """
    config = files.read_json(folder / "config.json")
    if config["model_type"] not in ENCODERS:
        raise RaptError(not_allowed("an attacker's model_type", config["model_type"], ENCODERS))
    if layers:
        how["num_hidden_layers"] = min(layers, config["num_hidden_layers"])
    return models.load(auto, folder, dtype=torch.float32, **how)


def fine_tune(
    attack: str,
    model: nn.Module,
    batches: Iterable[tuple[T, int]],
    loss: Callable[[T], Tensor],
    learning_rate: float,
    total: int,
    unit: str,
) -> None:
    """Train a model by AdamW, whose rate falls linearly to 0.

    Args:
        attack: its name, for the progress and for errors.
        model: its weights that require a gradient are trained.
        batches: the batch of each step, and how many units it counts for.
        loss: of a batch.
        learning_rate: at the first step.
        total: units after which the rate is 0.
        unit: their name.

    Raises:
        RaptError: the loss is not a number.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer, done = torch.optim.AdamW(weights, learning_rate, fused=True), 0
    model.train()
    # One thread, so that the figures do not depend on how many cores there are.
    with threadpool_limits(1), counter(attack, total, unit) as progress:
        for batch, count in batches:
            optimizer.param_groups[0]["lr"] = learning_rate * max(0, 1 - done / total)
            found = loss(batch)
            if not torch.isfinite(found):
                raise RaptError(
                    f"{attack}: got a loss that is not a number, expected a finite one. "
                    f"Lower learning_rate ({learning_rate})."
                )
            optimizer.zero_grad()
            found.backward()
            optimizer.step()
            done += count
            progress.update(count)


def hidden_states(folder: Path, release: Release, max_tokens: int) -> Vectors:
    """Compute the mean last hidden state over each text's own tokens, float32 (n, h).

    Args:
        folder: folder of the model, of a family that backbones may have.
        release: n texts; released vectors, if any, are read in the place of words.
        max_tokens: most tokens of a text, in whole words.

    Raises:
        RaptError: the vectors' dimension is not the model's, or the model is not supported.
    """
    tokenizer, model = load_tokenizer(folder), load_model(folder)
    split = split_of(release, tokenizer, max_tokens)
    check_vectors(model, split.vectors)
    # One thread, so that the figures do not depend on how many cores there are.
    with threadpool_limits(1):
        return features(Classifier(model, classes=1), split, tokenizer.pad_token_id, BATCH).numpy()


def split_of(
    release: Release, tokenizer: Any, max_tokens: int, labels: Sequence[int] | None = None
) -> Split:
    """Tokenize released texts; their vectors, if any, replace the words' own."""
    columns: dict[str, list[Any]] = {
        "words": [list(text) for text in release.words],
        "segment": [[0] * len(text) for text in release.words],
        "label": list(labels or [0] * len(release.words)),
    }
    vectors = None
    if release.vectors is not None:
        columns["row"] = numbered(release.words)
        vectors = torch.from_numpy(np.array(release.vectors))
    return tokenized(columns, tokenizer, max_tokens, vectors)
