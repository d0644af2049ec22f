"""Random embedding tables of a real one's shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from rapt.privacy.base import PreparedText
from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import fresh, stream
from rapt.text.table import EmbeddingTable
from rapt.utils import files

SIZE = 30_522  # BERT's vocabulary
NORM = 1.4  # about that of BERT's vectors
ETA = 75.0  # the noise is about ten at BERT's 768 dimensions, as in RAPT


def eta_at(dimension: int) -> float:
    """The η at which noise is to a vector what it is at 768 dimensions and ETA."""
    return ETA * dimension / 768


def write_table(folder: Path, size: int, dimension: int) -> Path:
    """A table of normal vectors, in the format of the `tables` stage; kept if it is there."""
    if (folder / "tokenizer.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    rng = stream(0, "benchmark", size, dimension)
    vectors = rng.standard_normal((size, dimension), np.float32) * np.float32(
        NORM / np.sqrt(dimension)
    )
    words = [f"w{row}" for row in range(size)]
    columns = {"word": words, "pos": [["NOUN"]] * size, "frequency": [0.0] * size}
    files.write_json(folder / "words.json", columns)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "pieces.npy", vectors[:1])
    model = WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    Tokenizer(model).save(str(folder / "tokenizer.json"))  # last: the table is complete
    return folder


def text(n: int, size: int, name: str = "text") -> list[str]:
    """Words drawn from the table."""
    return [f"w{row}" for row in stream(0, "benchmark", name).integers(0, size, n)]


def t2t(table: EmbeddingTable) -> Privatizer:
    """Text-to-text privatization over a table."""
    return Privatizer(table=table, mechanism=T2T(), eta=eta_at(table.dimension))


def release(privatizer: Privatizer, words: list[str]) -> list[str]:
    """Release tagged words in texts of a hundred, each with its own fresh stream, as in use."""
    texts = (words[i : i + 100] for i in range(0, len(words), 100))
    tagged = (PreparedText(text, [0] * len(text), fresh) for text in texts)
    return [word for released in privatizer.privatize(tagged) for word in released]
