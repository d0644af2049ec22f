"""Denoised words: a released word's embedding is replaced by those of its possible originals.

P(w|y) is the posterior of a released word y. E(w) is the mean of the backbone's input embeddings of
the pieces of w. Then y takes one position, with the vector

    D(y) = Σ_w P(w|y)·E(w)

Or, as augmentation during training, the vector is E(w) of a w drawn from P(·|y) at each step. E is
taken from the backbone before tuning, also in full fine-tuning: D and E do not learn. A word
without a posterior keeps its own tokens. With posterior-target the vector is E(y).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_array
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rapt.tuning.config import Denoising
from rapt.tuning.inputs import InputVectors, Split, word_pieces
from rapt.utils.errors import RaptError

FOLDER = "denoised"  # in the adapter's folder
WORDS, VECTORS = "words.json", "vectors.safetensors"


def reading(
    how: Denoising, backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> tuple[InputVectors, WordSampler | None]:
    """Return the released words' vectors, and for posterior-sample a sampler of originals."""
    layer: Any = backbone.get_input_embeddings()
    rows = {word: row for row, word in enumerate(how.released)}
    if how.type == "posterior-target":
        own = word_embeddings(layer.weight.detach(), tokenizer, how.released)
        return InputVectors(rows, own), None
    embedded = word_embeddings(layer.weight.detach(), tokenizer, how.words)
    mean = torch.from_numpy(how.posterior.astype("float32") @ embedded.numpy())
    sampler = WordSampler(how.posterior, embedded) if how.type == "posterior-sample" else None
    return InputVectors(rows, mean), sampler


def word_embeddings(
    weights: Tensor, tokenizer: PreTrainedTokenizerBase, words: Sequence[str]
) -> Tensor:
    """Compute E(w) of n words from the tokens' input embeddings (tokens, h), float32 (n, h).

    A word without tokens has the vector 0.
    """
    embedded = torch.zeros(len(words), weights.shape[1])
    for row, tokens in enumerate(word_pieces(tokenizer, words)):
        if tokens:
            embedded[row] = weights[tokens].float().mean(0)
    return embedded


def save_denoised(words: InputVectors, adapter: Path) -> None:
    """Write D beside an adapter, as serving needs it."""
    folder = adapter / FOLDER
    folder.mkdir(exist_ok=True)
    content = json.dumps(list(words.rows), ensure_ascii=False)
    (folder / WORDS).write_text(content + "\n", encoding="utf-8")
    save_file({"vectors": words.vectors}, folder / VECTORS)


def load_denoised(adapter: Path) -> InputVectors:
    """Load the output of `save_denoised`.

    Raises:
        RaptError: it is missing.
    """
    folder = adapter / FOLDER
    if not (folder / VECTORS).is_file():
        raise RaptError(
            f"adapter: got {str(folder)!r} without denoised words, expected them. Copy it with the "
            "rest of the adapter."
        )
    words = json.loads((folder / WORDS).read_text(encoding="utf-8"))
    rows = {word: row for row, word in enumerate(words)}
    return InputVectors(rows, load_file(folder / VECTORS)["vectors"])


class WordSampler:
    """Draws the originals of a batch's denoised words, from torch's global generator."""

    def __init__(self, posterior: csr_array, embedded: Tensor) -> None:
        """Take P(w|y), float64 (R, V), of which no row is empty, and E(w), float32 (V, h)."""
        self._vectors = embedded
        self._originals = torch.from_numpy(posterior.indices).long()
        starts = torch.from_numpy(posterior.indptr).long()
        self._last = starts[1:] - 1
        # The sums of row r run from r to r + 1, so that one search serves all rows.
        sums = torch.cat((torch.zeros(1).double(), torch.from_numpy(posterior.data).cumsum(0)))
        rows = torch.repeat_interleave(torch.arange(len(self._last)), starts.diff())
        self._sums = rows + sums[1:] - sums[starts[:-1]][rows]
        self._sums[self._last] = torch.arange(1.0, len(self._last) + 1, dtype=torch.float64)

    def draw(self, rows: Tensor) -> Tensor:
        """Draw an original w ~ P(·|y) for each row y of the posterior, int64 (n,)."""
        found = torch.searchsorted(
            self._sums, rows + torch.rand(len(rows), dtype=torch.float64), right=True
        )
        return self._originals[torch.minimum(found, self._last[rows])]

    def __call__(self, split: Split) -> Split:
        """Return the split with drawn originals instead of the denoised words."""
        tokens = split.tokens.values.clone()
        denoised = tokens < 0
        drawn = self.draw(-1 - tokens[denoised].long())
        tokens[denoised] = (-1 - drawn).to(tokens.dtype)
        return replace(split, tokens=replace(split.tokens, values=tokens), vectors=self._vectors)
