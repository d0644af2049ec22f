"""Building an embedding table from a public vocabulary: a model's, or static vectors'."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer, normalizers
from tokenizers import models as tokenizer_models
from wordfreq import available_languages, top_n_list, word_frequency

from rapt import models
from rapt.text import static
from rapt.text.language import ANY
from rapt.text.table import Vectors
from rapt.text.vocabulary import candidates
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar

if TYPE_CHECKING:  # which imports spaCy
    from rapt.text.tagging import Tagger

UNKNOWN = "[UNK]"
# What the families of models call them: BERT's, T5's, Llama's, GPT-2's, ModernBERT's.
INPUT_EMBEDDINGS = ("word_embeddings", "shared", "embed_tokens", "wte", "tok_embeddings")
# Names of vectors that are the whole model, as model2vec has them, and of what scales them there.
STATIC_EMBEDDINGS, MAPPING, WEIGHTS = "embeddings", "mapping", "weights"
LANGUAGE = "en"  # of the public word frequencies where the tagger's has none
SPLIT = ("ja", "ko", "zh")  # wordfreq counts their words with packages that we do not install
# The COMMON most frequent words of the tagger's language: a table that lists less than the share
# LISTED of them is of another language. Smaller tables are not checked. BERT's English
# vocabulary lists 97 % of the English ones and at most 37 % of another language's.
COMMON, LISTED = 1000, 0.5
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


def build_table(
    model: Path,
    tagger: Tagger,
    extra_pos: Mapping[str, Sequence[str]],
    folder: Path,
    language: str | None = None,
) -> None:
    """Write the table of a model's vocabulary into `folder` (docs/data.md).

    Args:
        model: the embedding model, or static vectors: see `check`.
        tagger: gives each word the tag of its category.
        extra_pos: further tags of some words.
        folder: an empty path.
        language: of the words, or ANY: it is not checked; None: the tagger's.

    Raises:
        RaptError: the model cannot be read, or its words are of another language.
    """
    read = static.reader(model)
    vocabulary = _of_static(read()) if read else _of_language_model(model)
    if not vocabulary.words:
        raise RaptError(f"model {model}: got no word in its vocabulary, expected some.")
    expected = tagger.language if language is None else language
    _check_language(vocabulary.words, expected)
    tags = bar(tagger.words(vocabulary.words), "tagging the vocabulary", len(vocabulary.words))
    counted = expected if expected in available_languages() and expected not in SPLIT else LANGUAGE
    words = {
        "language": expected,
        "word": vocabulary.words,
        "pos": [
            [tag, *extra_pos.get(word, ())]
            for word, tag in zip(vocabulary.words, tags, strict=True)
        ],
        "frequency": [frequency(word, counted) for word in vocabulary.words],
    }
    folder.mkdir(parents=True)
    files.write_json(folder / "words.json", words)
    np.save(folder / "vectors.npy", vocabulary.vectors, allow_pickle=False)
    np.save(folder / "pieces.npy", vocabulary.pieces, allow_pickle=False)
    vocabulary.tokenizer.save(str(folder / "tokenizer.json"))


def check(model: Path) -> None:
    """Check that a table can be made of a model, without reading its vectors.

    It may be a language model or model2vec: safetensors with a tokenizer. Else `static.reader`
    knows its format.

    Raises:
        RaptError: it cannot.
    """
    if not static.reader(model):
        _tokenizer(model)
        if not any(model.glob("*.safetensors")):
            raise RaptError(
                f"model {model}: got no vectors, expected safetensors, or static vectors of GloVe, "
                "fastText, word2vec, spaCy or model2vec. Pickled ones are never read."
            )


def _check_language(words: Sequence[str], language: str) -> None:
    if language == ANY or language not in available_languages() or len(words) < COMMON:
        return
    known = {_plain(word) for word in words}
    common = top_n_list(language, COMMON)
    listed = sum(_plain(word) in known for word in common) / len(common)
    if listed < LISTED:
        raise RaptError(
            f"table: got {listed:.0%} of the {COMMON} most frequent words of language "
            f"{language!r}, expected {LISTED:.0%} or more. Take a tagger of the table's language, "
            f"or override it: --language {ANY}, or language in params.yaml."
        )


def _plain(word: str) -> str:
    """A word in lower case, without accents, as some vocabularies have it."""
    apart = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in apart if unicodedata.category(c) != "Mn")


def frequency(word: str, language: str = LANGUAGE) -> float:
    """How often a word stands in public text, for each word there is; 0 where nobody knows."""
    return word_frequency(word, language) or PUNCTUATION.get(word, 0.0) / 1000


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
    if max(words.values(), default=-1) >= len(pieces):
        raise RaptError(
            f"model {model}: got {len(pieces)} vectors, expected one for each of its tokens."
        )
    vectors = pieces[list(words.values())]
    return _Vocabulary(list(words), vectors, pieces, tokenizer)


def _tokenizer(model: Path) -> Tokenizer:
    """A model's tokenizer; Transformers makes it where the model has no tokenizer.json.

    Raises:
        RaptError: there is none.
    """
    path = model / "tokenizer.json"
    try:
        if path.is_file():
            return Tokenizer.from_file(str(path))
        found: Tokenizer = models.tokenizer(model).backend_tokenizer
    except (RaptError, ModuleNotFoundError):
        raise
    except Exception:  # of a dozen kinds; of a broken file, tokenizers raises a bare Exception
        raise RaptError(
            f"model {model}: got no tokenizer that can be read, expected tokenizer.json."
        ) from None
    return found


def _input_embeddings(model: Path) -> Vectors:
    """The vector of each token, float32 (tokens, d), read without the rest of the model.

    Transformers loads a model that has them under a name of its own, or in bfloat16.
    """
    for path in sorted(model.glob("*.safetensors")):
        try:
            with safe_open(path, framework="np") as file:
                names = set(file.keys())
                if STATIC_EMBEDDINGS in names:
                    return _scaled({name: file.get_tensor(name) for name in names})
                for name in INPUT_EMBEDDINGS:
                    found = [key for key in names if f".{key}".endswith(f".{name}.weight")]
                    if len(found) == 1 and file.get_slice(found[0]).get_dtype() in ("F32", "F16"):
                        return file.get_tensor(found[0]).astype(np.float32)
        except SafetensorError:
            raise RaptError(f"model {path}: got a broken file, expected safetensors.") from None
    try:
        return models.input_embeddings(model)
    except (AttributeError, KeyError, OSError, ValueError):
        raise RaptError(
            f"model {model}: got no token embeddings, expected those of a language model, or "
            "static vectors."
        ) from None


def _scaled(tensors: Mapping[str, NDArray[Any]]) -> Vectors:
    """The vector of each token of model2vec: tokens may share a row, and have a weight."""
    vectors = tensors[STATIC_EMBEDDINGS].astype(np.float32)
    if MAPPING in tensors:
        vectors = vectors[tensors[MAPPING]]
    if WEIGHTS in tensors:
        vectors *= tensors[WEIGHTS].astype(np.float32)[:, None]
    return vectors


def _of_static(found: static.StaticWords) -> _Vocabulary:
    """A word outside the vocabulary has the mean of all vectors, as GloVe's authors advise."""
    tokenizer = Tokenizer(tokenizer_models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    pieces = found.vectors.mean(axis=0, dtype=np.float64, keepdims=True).astype(np.float32)
    return _Vocabulary(found.words, found.vectors, pieces, tokenizer)
