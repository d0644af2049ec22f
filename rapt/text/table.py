"""An embedding table: the public candidate words of an embedding model and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from rapt import files

Vectors = NDArray[np.float32]


class EmbeddingTable:
    """The table that the `tables` stage wrote, memory-mapped; see docs/data.md.

    Attributes:
        words: the V candidate words.
        pos: for each, the POS tags of the categories it stands in.
        frequency: float64 (V,), the public relative frequency of each, 0 where unknown.
        vectors: float32 (V, d).
    """

    def __init__(self, folder: str | Path) -> None:
        """Open the table in `folder`."""
        folder = Path(folder)
        table = files.read_parquet(folder / "words.parquet")
        self.folder = folder
        self.words: list[str] = table["word"].to_pylist()
        self.pos: list[list[str]] = table["pos"].to_pylist()
        self.frequency: NDArray[np.float64] = table["frequency"].to_numpy()
        self.vectors: Vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self._pieces: Vectors = np.load(folder / "pieces.npy", mmap_mode="r")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # Some models ship a tokenizer that cuts and pads every input.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._rows = {word: row for row, word in enumerate(self.words)}
        self._forms: dict[str, str] = {}
        self._rare: dict[str, Vectors] = {}

    @property
    def dimension(self) -> int:
        """The number d of dimensions of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def sha256(self) -> str:
        """The digest of the table's files."""
        return files.sha256(self.folder)

    def form(self, word: str) -> str:
        """The word as the embedding model's vocabulary writes it (lower case, without accents…)."""
        if word not in self._forms:
            normalizer = self._tokenizer.normalizer
            normal = normalizer.normalize_str(word) if normalizer else word
            self._forms[word] = word if word in self._rows else normal
        return self._forms[word]

    def embed(self, words: Sequence[str]) -> Vectors:
        """The vectors E(w) of any words, float32 (n, d).

        A word outside the table has the mean of its tokens' vectors.
        """
        rows = [self._rows.get(self.form(word), -1) for word in words]
        vectors = np.asarray(self.vectors[rows])
        for i, row in enumerate(rows):
            if row < 0:
                vectors[i] = self._embed_rare(words[i])
        return vectors

    def _embed_rare(self, word: str) -> Vectors:
        if word not in self._rare:
            tokens = self._tokenizer.encode(word, add_special_tokens=False).ids
            # A word of control characters alone may have no token: the origin then stands for it.
            vectors = self._pieces[tokens] if tokens else np.zeros((1, self.dimension), np.float32)
            self._rare[word] = vectors.mean(axis=0)
        return self._rare[word]
