"""Reading static vectors as their makers publish them: GloVe, fastText, word2vec, spaCy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from rapt.text.table import Vectors
from rapt.text.vocabulary import is_word
from rapt.utils import files
from rapt.utils.errors import RaptError

LONGEST = 1 << 10  # bytes of a word in a binary file
READ = 1 << 20  # bytes read at a time to count lines
SUFFIXES = (".txt", ".vec", ".bin")


class StaticWords(NamedTuple):
    """Words and their vectors, float32 (V, d), row for row."""

    words: list[str]
    vectors: Vectors


def reader(path: Path) -> Callable[[], StaticWords] | None:
    """Return what reads the static vectors at a path; None: there are none.

    Args:
        path: a file, or a folder that holds one; told apart by content, whatever their names are.

    Raises:
        RaptError: a file is none of the known formats.
    """
    if path.is_file():
        return _of_file(path)
    if any(path.glob("*.npy")):
        return lambda: _arrays(path)
    if found := [*path.glob("vocab/vectors"), *path.glob("*/vocab/vectors")]:
        return lambda: _spacy(found[0].parent)
    own = [file for file in path.glob("*") if file.suffix in SUFFIXES]
    if len(own) == 1 and not any(path.glob("*.safetensors")):
        return _of_file(own[0])
    return None


def _of_file(path: Path) -> Callable[[], StaticWords]:
    with path.open("rb") as file:
        first, second = file.readline(READ), file.read(READ)
    if header := re.fullmatch(rb"(\d+) (\d+)\s*", first):
        count, dimension = map(int, header.groups())
        if _numbers(second.partition(b"\n")[0], dimension) is not None:
            return lambda: _text(path, dimension, header=True)
        return lambda: _binary(path, count, dimension)
    dimension = len(first.split()) - 1
    if dimension > 0 and _numbers(first, dimension) is not None:
        return lambda: _text(path, dimension, header=False)
    raise _error(path, "got another format, expected GloVe, fastText (.vec) or word2vec.")


def _numbers(line: bytes, dimension: int) -> Vectors | None:
    """The numbers at the end of a line; None: other than so many finite ones."""
    try:
        vector = np.array(line.rstrip().rsplit(b" ", dimension)[1:], np.float32)
    except ValueError:
        return None
    return vector if vector.shape == (dimension,) and np.isfinite(vector).all() else None


def _error(path: Path, problem: str) -> RaptError:
    return RaptError(f"model {path}: {problem}")


def _taken(entries: Iterator[tuple[str, Vectors]], count: int, dimension: int) -> StaticWords:
    """Keep each word once; what is no word is left out."""
    vectors = np.empty((count, dimension), np.float32)
    words: dict[str, int] = {}
    for word, vector in entries:
        if is_word(word) and word not in words:
            vectors[len(words)] = vector
            words[word] = len(words)
    return StaticWords(list(words), vectors[: len(words)])


def _text(path: Path, dimension: int, *, header: bool) -> StaticWords:
    """Lines of a word and its numbers; words may hold spaces."""
    with path.open("rb") as file:
        lines = sum(part.count(b"\n") for part in iter(lambda: file.read(READ), b""))

    def entries(file: BinaryIO) -> Iterator[tuple[str, Vectors]]:
        for number, line in enumerate(file, start=1):
            if number == 1 and header:
                continue
            vector = _numbers(line, dimension)
            if vector is None:
                raise _error(
                    path, f"line {number}: got no vector, expected a word and {dimension} numbers."
                )
            try:
                word = line.rstrip().rsplit(b" ", dimension)[0].decode()
            except UnicodeDecodeError:
                raise _error(
                    path, f"line {number}: got another encoding, expected UTF-8."
                ) from None
            yield word, vector

    with path.open("rb") as file:
        return _taken(entries(file), lines + 1, dimension)


def _binary(path: Path, count: int, dimension: int) -> StaticWords:
    """After the header, a word, a space and float32 numbers, again and again."""
    size, length = 4 * dimension, path.stat().st_size
    if count * size > length:
        raise _error(path, f"got {length} bytes, expected {count} vectors of {dimension} numbers.")

    def entries(file: BinaryIO) -> Iterator[tuple[str, Vectors]]:
        file.readline()
        for number in range(1, count + 1):
            word = _until_space(file)
            data = file.read(size)
            vector = np.frombuffer(data, "<f4") if len(data) == size else np.empty(0, np.float32)
            if not word or len(vector) != dimension or not np.isfinite(vector).all():
                raise _error(
                    path,
                    f"word {number}: got no vector, expected a word and {dimension} numbers of "
                    "word2vec's binary format.",
                )
            yield word.strip().decode(errors="replace"), vector

    with path.open("rb") as file:
        return _taken(entries(file), count, dimension)


def _until_space(file: BinaryIO) -> bytes:
    """Read a word; empty: none ends here."""
    word = bytearray()
    while len(word) < LONGEST and (byte := file.read(1)):
        if byte == b" ":
            return bytes(word)
        word += byte
    return b""


def _arrays(folder: Path) -> StaticWords:
    """One Parquet file with the words and one `.npy` file with their vectors, row for row."""
    found = [*folder.glob("*.parquet"), *folder.glob("*.npy")]
    if [path.suffix for path in found] != [".parquet", ".npy"]:
        raise _error(folder, "got other files, expected one .parquet of words and one .npy.")
    parquet, npy = found
    (words,) = files.read_parquet(parquet).columns
    vectors = np.load(npy, mmap_mode="r", allow_pickle=False)
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise _error(
            folder, f"got {len(words)} words and vectors {vectors.shape}, expected as many."
        )
    return _taken(zip(words.to_pylist(), vectors, strict=True), *vectors.shape)


def _spacy(folder: Path) -> StaticWords:
    """Vectors of a spaCy model; of words that share one, the shortest and first has it."""
    from spacy.vocab import Vocab

    vocab = Vocab().from_disk(folder)
    if vocab.vectors.mode != "default" or not vocab.vectors.size:
        raise _error(folder, "got no vectors of words, expected some (floret has none).")
    keys = [key for key in vocab.vectors.keys() if key in vocab.strings]  # noqa: SIM118
    words = sorted((vocab.strings[key] for key in keys), key=len)
    rows = vocab.vectors.find(keys=[vocab.strings[word] for word in words])
    _, first = np.unique(rows, return_index=True)
    chosen = ((words[at], vocab.vectors.data[rows[at]]) for at in np.sort(first))
    return _taken(chosen, len(first), vocab.vectors.data.shape[1])
