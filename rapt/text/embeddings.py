"""Building an embedding table from a public vocabulary: a language model's, or GloVe's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer, normalizers
from tokenizers import models as tokenizer_models
from transformers import AutoModel, PreTrainedTokenizerBase
from wordfreq import word_frequency

from rapt import files, models
from rapt.progress import bar
from rapt.text.table import Vectors
from rapt.text.tagging import Tagger

WORD_START = ("Ġ", "▁")
UNKNOWN = "[UNK]"
LANGUAGE = "en"  # of the public word frequencies
# Marks for each 1,000 words of English text, which wordfreq has no figures of (Cook, 2013, Standard
# punctuation and the punctuation of the street; viviancook.uk/Punctuation/PunctFigs.htm).
PUNCTUATION = {
    ".": 65.3,
    ",": 61.6,
    ";": 3.2,
    ":": 3.4,
    "!": 3.3,
    "?": 5.6,
    "'": 24.3,
    "’": 24.3,
    '"': 26.7,
    "“": 26.7,
    "”": 26.7,
    "-": 15.3,
}


def candidates(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """The whole words of a vocabulary and their tokens: digits and punctuation are words too.

    WordPiece: all but the `##` pieces, the special and the `[unused]` tokens. BPE, SentencePiece:
    the tokens that begin with the word-boundary marker, without it. In the order of the tokens.
    """
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = set(tokenizer.all_special_tokens)
    if any(token.startswith("##") for token, _ in tokens):
        return {
            token: i
            for token, i in tokens
            if token not in special and not re.fullmatch(r"##.*|\[unused\d+\]", token, re.S)
        }
    starts = (
        (i, str(tokenizer.decode([i])).strip())
        for token, i in tokens
        if token.startswith(WORD_START)
    )
    words: dict[str, int] = {}
    for i, word in starts:
        if word and word not in special and not re.search(r"\s|\ufffd", word):
            words.setdefault(word, i)
    return words


def build_table(
    model: Path, tagger: Tagger, extra_pos: Mapping[str, Sequence[str]], folder: Path
) -> None:
    """Write the table of a model's vocabulary into `folder` (docs/data.md).

    Args:
        model: folder of the embedding model; or of static vectors (GloVe): one Parquet file with
            the words and one `.npy` file with their vectors, row for row.
        tagger: gives each word the tag of its category.
        extra_pos: further tags of some words.
        folder: an empty path.
    """
    vocabulary = _static(model) if any(model.glob("*.npy")) else _of_language_model(model)
    tags = bar(tagger.words(vocabulary.words), "tagging the vocabulary", len(vocabulary.words))
    words = {
        "word": vocabulary.words,
        "pos": [
            [tag, *extra_pos.get(word, ())]
            for word, tag in zip(vocabulary.words, tags, strict=True)
        ],
        "frequency": [frequency(word) for word in vocabulary.words],
    }
    folder.mkdir(parents=True)
    files.write_json(folder / "words.json", words)
    np.save(folder / "vectors.npy", vocabulary.vectors, allow_pickle=False)
    np.save(folder / "pieces.npy", vocabulary.pieces, allow_pickle=False)
    vocabulary.tokenizer.save(str(folder / "tokenizer.json"))


def frequency(word: str) -> float:
    """How often a word stands in public text, for each word there is; 0 where nobody knows."""
    return word_frequency(word, LANGUAGE) or PUNCTUATION.get(word, 0.0) / 1000


class _Vocabulary(NamedTuple):
    """Candidate words with their vectors, and what gives any other word a vector."""

    words: list[str]
    vectors: Vectors
    pieces: Vectors
    tokenizer: Tokenizer


def _of_language_model(model: Path) -> _Vocabulary:
    tokenizer = models.tokenizer(model)
    # Of T5 that is both halves, and some have the encoder alone.
    backbone: Any = models.load(AutoModel, model, fresh=("decoder.",))
    pieces = backbone.get_input_embeddings().weight.detach().float().numpy()
    words = candidates(tokenizer)
    vectors = pieces[list(words.values())]
    return _Vocabulary(list(words), vectors, pieces, tokenizer.backend_tokenizer)


def _static(folder: Path) -> _Vocabulary:
    """A word outside the vocabulary has the mean of all vectors, as GloVe's authors advise."""
    (words,) = files.read_parquet(next(folder.glob("*.parquet"))).columns
    vectors = np.load(next(folder.glob("*.npy")), mmap_mode="r").astype(np.float32)
    tokenizer = Tokenizer(tokenizer_models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    pieces = vectors.mean(axis=0, dtype=np.float64, keepdims=True).astype(np.float32)
    return _Vocabulary(words.to_pylist(), vectors, pieces, tokenizer)
