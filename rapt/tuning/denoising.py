"""Denoised words: in place of a released word's embedding those of what it may have been.

With P(w|y) the posterior of a released word y, and E(w) the mean of the backbone's input embeddings
of w's pieces, y takes one position with the vector

    D(y) = Σ_w P(w|y)·E(w)

or, as augmentation while training, with E(w) of a w that is drawn from P(·|y) at each step. E is
that of the backbone before it is tuned, also in full fine-tuning: D and E do not learn. A word
without a posterior keeps its own tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rapt.errors import RaptError
from rapt.tuning.backbones import load_model, load_tokenizer
from rapt.tuning.config import Denoising, Originals
from rapt.tuning.inputs import Split, WordVectors, word_pieces

FOLDER = "denoised"  # beside the folders of the seeds, which share it
WORDS, VECTORS = "words.json", "vectors.safetensors"
AT_ONCE = 1000  # words that the tokenizer is given


def write_denoised(originals: Originals, backbone: Path, denoising: Denoising) -> None:
    """Write what a denoised run reads: D, and what posterior-sample draws from.

    Args:
        originals: P(w|y).
        backbone: folder of the model.
        denoising: where to write.
    """
    torch.set_num_threads(1)
    model: Any = load_model(backbone)
    weights = model.get_input_embeddings().weight.detach()
    embedded = word_embeddings(weights, load_tokenizer(backbone), originals.words)
    posterior = originals.posterior
    mean = posterior.astype("float32") @ embedded.numpy()
    denoising.folder.mkdir(parents=True)
    words = json.dumps(originals.released, ensure_ascii=False)
    (denoising.folder / WORDS).write_text(words + "\n", encoding="utf-8")
    save_file({"vectors": torch.from_numpy(mean)}, denoising.folder / VECTORS)
    if denoising.draws is not None:
        save_file(
            {
                "vectors": embedded,
                "originals": torch.from_numpy(posterior.indices).long(),
                "probabilities": torch.from_numpy(posterior.data).double(),
                "starts": torch.from_numpy(posterior.indptr).long(),
            },
            denoising.draws,
        )


def word_embeddings(
    weights: Tensor, tokenizer: PreTrainedTokenizerBase, words: Sequence[str]
) -> Tensor:
    """E(w): the mean embedding of the pieces that each word has inside a text, float32 (n, h).

    Args:
        weights: input embeddings of the tokens, (tokens, h).
        tokenizer: of the backbone.
        words: n words; one that becomes no token has the vector 0.
    """
    embedded = torch.zeros(len(words), weights.shape[1])
    for start in range(0, len(words), AT_ONCE):
        pieces = word_pieces(tokenizer, words[start : start + AT_ONCE])
        for row, tokens in enumerate(pieces, start):
            if tokens:
                embedded[row] = weights[tokens].float().mean(0)
    return embedded


def load_denoised(folder: Path) -> WordVectors:
    """The denoised words of a cell, which `write_denoised` wrote.

    Raises:
        RaptError: they are not there.
    """
    if not (folder / VECTORS).is_file():
        raise RaptError(f"adapter: {str(folder)!r} holds no denoised words, copy it with its seeds")
    words = json.loads((folder / WORDS).read_text(encoding="utf-8"))
    rows = {word: row for row, word in enumerate(words)}
    return WordVectors(rows, load_file(folder / VECTORS)["vectors"])


class Sampler:
    """Draws the originals of a batch's denoised words, from torch's own generator."""

    def __init__(self, path: Path) -> None:
        """Read what `write_denoised` wrote for posterior-sample."""
        read = load_file(path)
        self._vectors, self._originals = read["vectors"], read["originals"]
        starts = read["starts"]
        self._last = starts[1:] - 1
        # Row r of the posterior's sums runs from r to r + 1: one search serves all rows.
        sums = torch.cat((torch.zeros(1, dtype=torch.float64), read["probabilities"].cumsum(0)))
        rows = torch.repeat_interleave(torch.arange(len(self._last)), starts.diff())
        self._sums = rows + sums[1:] - sums[starts[:-1]][rows]
        self._sums[self._last] = torch.arange(1.0, len(self._last) + 1, dtype=torch.float64)

    def draw(self, rows: Tensor) -> Tensor:
        """An original w ~ P(·|y) for each row y of the posterior, int64 (n,)."""
        found = torch.searchsorted(
            self._sums, rows + torch.rand(len(rows), dtype=torch.float64), right=True
        )
        return self._originals[torch.minimum(found, self._last[rows])]

    def __call__(self, split: Split, rows: Sequence[int]) -> Split:
        """The split with originals drawn in place of the denoised words of these texts."""
        drawn = self.draw(
            torch.tensor([-1 - t for r in rows for t in split.tokens[r] if t < 0]).long()
        )
        originals = iter(drawn.tolist())
        tokens = list(split.tokens)
        for row in rows:
            tokens[row] = [-1 - next(originals) if t < 0 else t for t in split.tokens[row]]
        return replace(split, tokens=tokens, vectors=self._vectors)
