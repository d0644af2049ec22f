"""Hidden states of released texts in a pretrained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Release, Vectors
from rapt.tuning.backbones import check_vectors, load_model, load_tokenizer
from rapt.tuning.inputs import Split, numbered, tokenized
from rapt.tuning.model import Classifier
from rapt.tuning.scoring import features

BATCH = 32


def hidden_states(folder: Path, release: Release, max_tokens: int) -> Vectors:
    """Compute the mean last hidden state over each text's own tokens, float32 (n, h).

    Args:
        folder: folder of the model, of a family that backbones may have.
        release: n texts; released vectors, if any, replace the words' own.
        max_tokens: most tokens of a text, in whole words.

    Raises:
        RaptError: the vectors' dimension is not the model's, or the model is not supported.
    """
    tokenizer, model = load_tokenizer(folder), load_model(folder, frozen="float32")
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
