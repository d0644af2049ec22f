"""An embedding table: the public candidate words of an embedding model and their vectors."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from rapt.text.vocabulary import proper
from rapt.utils import files, memmap
from rapt.utils.errors import RaptError

Vectors = NDArray[np.float32]
CHECKED = 1 << 10  # rows that are read at a time to be checked
CACHED = 1 << 14  # forms, and vectors of rare words, kept at a time
# What taggers split off a word: 's and 'll; n't; French l' and qu'.
_CONTRACTED = re.compile(r"['’][^\W\d_]{1,2}|[^\W\d_]{1,2}['’]")


class EmbeddingTable:
    """The table that the `tables` stage wrote, memory-mapped; see docs/data.md.

    Attributes:
        words: the V candidate words.
        pos: for each, the POS tags of the categories it stands in.
        frequency: float64 (V,), the public relative frequency of each, 0 where unknown.
        language: of the words; None: not noted.
        vectors: float32 (V, d).
        pieces: float32 (tokens, d), of which words outside the table are the means.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open the table in `folder`.

        Raises:
            RaptError: there is none, a word stands twice, or a vector is missing or not finite.
                Such a word would be the nearest to everything, or to nothing.
        """
        folder = Path(folder)
        if not (folder / "words.json").is_file():
            raise RaptError(
                f"table: got {str(folder)!r}, expected a folder with an embedding table. "
                "Make one by dvc repro tables, or rapt table."
            )
        # Not Parquet: importing Arrow would take a third of the memory of a privatization.
        table = files.read_json(folder / "words.json")
        self.folder = folder
        self.words: list[str] = table["word"]
        self.pos: list[list[str]] = table["pos"]
        self.language: str | None = table.get("language")
        self.frequency: NDArray[np.float64] = np.array(table["frequency"], np.float64)
        self.vectors: Vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self.pieces: Vectors = np.load(folder / "pieces.npy", mmap_mode="r")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # Some models ship a tokenizer that cuts and pads every input.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._rows = {word: row for row, word in enumerate(self.words)}
        self._cached_form = lru_cache(CACHED)(self._form)
        self._cached_mean = lru_cache(CACHED)(self._mean_of_tokens)
        self._cached_knows = lru_cache(CACHED)(self._knows)
        self._check()

    def _check(self) -> None:
        if len(self._rows) < len(self.words):
            again = next(row for row, word in enumerate(self.words) if self._rows[word] != row)
            raise RaptError(
                f"table {self.folder}: got the word of row {again} twice, expected each word once. "
                "Make the table again."
            )
        if len(self.vectors) != len(self.words):
            raise RaptError(
                f"table {self.folder}: got {len(self.vectors)} vectors, expected one for each of "
                f"the {len(self.words)} words."
            )
        for name in ("vectors.npy", "pieces.npy"):
            for start, part in memmap.walk(np.load(self.folder / name, mmap_mode="r"), CHECKED):
                finite = np.isfinite(part.sum(axis=1, dtype=np.float64))  # only if all of it is
                if not finite.all():
                    row = start + int(finite.argmin())
                    raise RaptError(
                        f"table {self.folder}: got row {row} of {name} not finite, expected finite "
                        "numbers. Make the table again."
                    )

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
        return self._cached_form(word)

    def _form(self, word: str) -> str:
        normalizer = self._tokenizer.normalizer
        if word in self._rows or not normalizer:
            return word
        return str(normalizer.normalize_str(word))

    def tags(self, word: str) -> list[str]:
        """The tags of a word, written in any form; none of a word that the table does not have."""
        row = self._rows.get(self.form(word))
        return [] if row is None else self.pos[row]

    def knows(self, word: str) -> bool:
        """Whether a word is one of the table's, punctuation, or a part of a contraction, as n't.

        What is made of several words, as alice+nairobi, is not known: it could be a secret.
        """
        return self._cached_knows(word)

    def _knows(self, word: str) -> bool:
        form = self.form(word)
        if form in self._rows or form.replace("’", "'") == "n't":
            return True
        if _CONTRACTED.fullmatch(form):
            return form.strip("'’") in self._rows
        return all(c in string.punctuation or unicodedata.category(c)[0] == "P" for c in form)

    def counts(self, texts: Iterable[Sequence[str]]) -> NDArray[np.int64]:
        """How often texts have each word of the table, written as the table has it, int64 (V,)."""
        rows = self.rows([word for text in texts for word in text])
        return np.bincount(rows[rows >= 0], minlength=len(self.words))

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The row of each word as the table has it, int64 (n,); -1 for another."""
        return np.array([self._rows.get(word, -1) for word in words], np.int64)

    @cached_property
    def tokens(self) -> NDArray[np.int64]:
        """The rows in `pieces` of the model's tokens, but for special ones; of none of GloVe's."""
        if len(self.pieces) == 1:
            return np.zeros(0, np.int64)
        return np.array([*proper(self._tokenizer).values()], np.int64)

    def tokenize(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The rows in `pieces` of the tokens of a text, int64 (n,)."""
        ids = self._tokenizer.encode(" ".join(words), add_special_tokens=False).ids
        return np.array(ids, np.int64)

    def spell(self, tokens: Iterable[int]) -> list[str]:
        """The words that tokens make: pieces of words are glued to what stands before them."""
        return str(self._tokenizer.decode([*map(int, tokens)])).split()

    def embed(self, words: Sequence[str]) -> Vectors:
        """The vectors E(w) of any words, float32 (n, d).

        A word outside the table has the mean of its tokens' vectors.
        """
        rows = self.rows(map(self.form, words))
        vectors = memmap.take(self.vectors, np.maximum(rows, 0))
        for i in np.flatnonzero(rows < 0).tolist():
            vectors[i] = self._cached_mean(words[i])
        return vectors

    def _mean_of_tokens(self, word: str) -> Vectors:
        tokens = self._tokenizer.encode(word, add_special_tokens=False).ids
        # A word of control characters alone may have no token: the origin then stands for it.
        vectors = self.pieces[tokens] if tokens else np.zeros((1, self.dimension), np.float32)
        return np.asarray(vectors.mean(axis=0))
