"""Static vectors in every format that `rapt table` takes, from files as their tools write them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import spacy

from rapt.text import static
from rapt.utils import files
from rapt.utils.errors import RaptError

WORDS = ["the", "</s>", "caf\u00e9", "new york", "<unk>", "7", ".", "The", "the", "###"]
KEPT = ["the", "caf\u00e9", "7", ".", "The"]
VECTORS = np.random.default_rng(0).standard_normal((len(WORDS), 5)).astype(np.float32)
EXPECTED = VECTORS[[0, 2, 5, 6, 7]]


def lines() -> str:
    return "".join(
        f"{word} {' '.join(map(repr, map(float, vector)))}\n"
        for word, vector in zip(WORDS, VECTORS, strict=True)
    )


def glove(path: Path) -> Path:
    (path / "glove.txt").write_text(lines())
    return path / "glove.txt"


def fasttext(path: Path) -> Path:
    (path / "wiki.vec").write_text(f"{len(WORDS)} 5\n" + lines())
    return path


def word2vec(path: Path) -> Path:
    content = f"{len(WORDS)} 5\n".encode()
    for word, vector in zip(WORDS, VECTORS, strict=True):
        content += word.replace(" ", "_").encode() + b" " + vector.tobytes() + b"\n"
    (path / "vectors.bin").write_bytes(content)
    return path / "vectors.bin"


def numpy(path: Path) -> Path:
    import pyarrow as pa

    files.write_parquet(path / "words.parquet", pa.table({"word": WORDS}))
    np.save(path / "vectors.npy", VECTORS)
    return path


@pytest.mark.parametrize("make", [glove, fasttext, word2vec, numpy])
def test_each_format_gives_the_same_words_and_vectors(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    read = static.reader(make(tmp_path))
    assert read
    words, vectors = read()
    own = [word for word in words if word != "new_york"]  # word2vec has no spaces in words
    assert own == KEPT
    np.testing.assert_array_equal(vectors[[words.index(word) for word in own]], EXPECTED)
    assert vectors.dtype == np.float32


def test_spacy_models_have_vectors(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    for word, vector in zip(WORDS[:8], VECTORS, strict=False):
        nlp.vocab.set_vector(word, vector)
    nlp.vocab.vectors.add("twin", row=0)  # as pruned models have them: one vector for two words
    (tmp_path / "package").mkdir()
    nlp.to_disk(tmp_path / "package" / "en_own-1.0")
    for place in (tmp_path / "package", tmp_path / "package" / "en_own-1.0"):
        read = static.reader(place)
        assert read
        words, vectors = read()
        assert sorted(words) == sorted(KEPT)
        np.testing.assert_array_equal(vectors[[words.index(word) for word in KEPT]], EXPECTED)


def test_a_language_model_is_not_static(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("the\n")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert static.reader(tmp_path) is None


def with_line(number: int, line: str) -> str:
    changed = lines().splitlines(keepends=True)
    changed[number - 1] = line
    return "".join(changed)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.txt", with_line(3, "secret 1 2 3\n").encode(), "line 3: got no vector, expected a wo"),
        ("a.txt", with_line(9, "secret 1 2 3 4 x\n").encode(), "line 9: got no vector, expected"),
        ("a.txt", with_line(4, "secret 1 2 3 4 nan\n").encode(), "line 4: got no vector, expec"),
        ("a.txt", with_line(2, "\n").encode(), "line 2: got no vector, expected a word and 5 num"),
        ("a.txt", lines().encode() + b"secret\xff 1 2 3 4 5\n", "line 11: got another encoding"),
        ("a.vec", b"2 5\nsecret 1 2 3 4 5\nsecret 1\n", "line 3: got no vector, expected a word"),
        ("a.bin", b"9 5\nsecret " + bytes(60), "got 71 bytes, expected 9 vectors of 5 numbers."),
        ("a.bin", b"2 5\nsecret " + bytes(49), "word 2: got no vector, expected a word and 5 "),
        ("a.bin", b"\xba\x16\x4f\x2f" + bytes(50), "got another format, expected GloVe, fastText"),
        ("a.txt", b"", "got another format, expected GloVe, fastText (.vec) or word2vec."),
        ("a.txt", b"a secret text, not a table\n", "got another format, expected GloVe, fastT"),
    ],
)
def test_what_is_malformed_is_one_line_without_its_content(
    name: str, content: bytes, line: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RaptError) as error:
        read = static.reader(path)
        assert read
        read()
    assert str(error.value).startswith(f"model {path}: {line}")
    assert "secret" not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "token",
    ["<unk>", "<s>", "</s>", "<pad>", "[MASK]", "[UNK]", "[unused1]", "<|endoftext|>", "<0x0A>",
     "<extra_id_0>", "<unused7>", "##ing", "", "a b", "\ufffd"],
)  # fmt: skip
def test_no_token_that_stands_for_no_word_is_a_word(token: str) -> None:
    assert not static.is_word(token)


@pytest.mark.parametrize("word", ["<", "[", "<3", "[7]", "#", "##", "the", "\u5317\u4eac", "<>"])
def test_what_people_write_is_a_word(word: str) -> None:
    assert static.is_word(word)


@pytest.mark.slow
def test_a_large_table_takes_hardly_more_memory_than_its_vectors(tmp_path: Path) -> None:
    """Python's own count of what is allocated at a time, the vectors included."""
    import tracemalloc

    row = " ".join(["0.12345"] * 300)
    path = tmp_path / "glove.txt"
    path.write_text("".join(f"w{number} {row}\n" for number in range(20_000)))
    tracemalloc.start()
    read = static.reader(path)
    assert read
    found = read()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.vectors.shape == (20_000, 300)
    assert peak < 2 * found.vectors.nbytes
