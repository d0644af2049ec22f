"""Building an embedding table from a public vocabulary: a language model's, or GloVe's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import safe_open
from tokenizers import Tokenizer, normalizers
from tokenizers import models as tokenizer_models
from wordfreq import word_frequency

from rapt import models
from rapt.text.table import Vectors
from rapt.text.tagging import Tagger
from rapt.utils import files
from rapt.utils.progress import bar

WORD_START = ("Ġ", "▁")
UNKNOWN = "[UNK]"
# What the families of models call them: BERT's, T5's, Llama's, GPT-2's, ModernBERT's.
INPUT_EMBEDDINGS = ("word_embeddings", "shared", "embed_tokens", "wte", "tok_embeddings")
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


def candidates(tokenizer: Tokenizer) -> dict[str, int]:
    """The whole words of a vocabulary and their tokens: digits and punctuation are words too.

    WordPiece: all but the `##` pieces, the special and the `[unused]` tokens. BPE, SentencePiece:
    the tokens that begin with the word-boundary marker, without it. In the order of the tokens.
    """
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {t.content for t in tokenizer.get_added_tokens_decoder().values() if t.special}
    special.add(getattr(tokenizer.model, "unk_token", ""))  # not always among them
    if any(token.startswith("##") for token, _ in tokens):
        return {
            token: i
            for token, i in tokens
            if token not in special and not re.fullmatch(r"##.*|\[unused\d+\]", token, re.S)
        }
    starts = (
        (i, tokenizer.decode([i]).strip()) for token, i in tokens if token.startswith(WORD_START)
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
        model: folder of the embedding model; or of static vectors (GloVe). Those are one Parquet
            file with the words and one `.npy` file with their vectors, row for row.
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
    tokenizer = _tokenizer(model)
    pieces = _input_embeddings(model)
    words = candidates(tokenizer)
    vectors = pieces[list(words.values())]
    return _Vocabulary(list(words), vectors, pieces, tokenizer)


def _tokenizer(model: Path) -> Tokenizer:
    """A model's tokenizer; Transformers makes it where the model has no tokenizer.json."""
    path = model / "tokenizer.json"
    if path.is_file():
        return Tokenizer.from_file(str(path))
    found: Tokenizer = models.tokenizer(model).backend_tokenizer
    return found


def _input_embeddings(model: Path) -> Vectors:
    """The vector of each token, float32 (tokens, d), read without the rest of the model.

    Transformers loads a model that has them under a name of its own, or in bfloat16.
    """
    for path in sorted(model.glob("*.safetensors")):
        with safe_open(path, framework="np") as file:
            for name in INPUT_EMBEDDINGS:
                found = [key for key in file.keys() if f".{key}".endswith(f".{name}.weight")]  # noqa: SIM118
                if len(found) == 1 and file.get_slice(found[0]).get_dtype() in ("F32", "F16"):
                    return file.get_tensor(found[0]).astype(np.float32)
    return models.input_embeddings(model)


def _static(folder: Path) -> _Vocabulary:
    """A word outside the vocabulary has the mean of all vectors, as GloVe's authors advise."""
    (words,) = files.read_parquet(next(folder.glob("*.parquet"))).columns
    vectors = np.load(next(folder.glob("*.npy")), mmap_mode="r").astype(np.float32)
    tokenizer = Tokenizer(tokenizer_models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    pieces = vectors.mean(axis=0, dtype=np.float64, keepdims=True).astype(np.float32)
    return _Vocabulary(words.to_pylist(), vectors, pieces, tokenizer)
