import shutil
from pathlib import Path

import numpy as np
import pytest

from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError


def test_a_word_is_found_in_the_vocabularys_own_form(table: EmbeddingTable) -> None:
    assert [table.form(w) for w in ("nouna", "NounA", "nöuna", "Zürich")] == [
        "nouna",
        "nouna",
        "nouna",
        "zurich",
    ]
    np.testing.assert_array_equal(table.embed(["NOUNA"])[0], table.vectors[0])


def test_a_split_word_has_the_mean_of_its_pieces(table: EmbeddingTable) -> None:
    pieces = np.load(table.folder / "pieces.npy")
    un, known = len(table.words) + 1, len(table.words) + 2
    np.testing.assert_allclose(table.embed(["unknown"])[0], pieces[[un, known]].mean(axis=0))


def test_words_without_tokens_have_a_vector_too(table: EmbeddingTable) -> None:
    vectors = table.embed(["\u200b", "", "日", "x" * 10_000])
    assert vectors.shape == (4, table.dimension)
    assert np.isfinite(vectors).all()


def test_embed_does_not_write_into_the_table(table: EmbeddingTable) -> None:
    before = np.array(table.vectors)
    table.embed(["unknown", "nouna"])[:] = 0
    np.testing.assert_array_equal(table.vectors, before)
    with pytest.raises(ValueError, match="read-only"):
        table.vectors[0] = 0


@pytest.fixture
def copy(table: EmbeddingTable, tmp_path: Path) -> Path:
    return Path(shutil.copytree(table.folder, tmp_path / "copy"))


@pytest.mark.parametrize("name", ["vectors.npy", "pieces.npy"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_refused(copy: Path, name: str, value: float) -> None:
    vectors = np.load(copy / name)
    vectors[3, 2] = value
    np.save(copy / name, vectors)
    with pytest.raises(RaptError, match=rf"got row 3 of {name} not finite, expected finite"):
        EmbeddingTable(copy)


def test_a_word_that_stands_twice_is_refused(copy: Path) -> None:
    words = files.read_json(copy / "words.json")
    words["word"][5] = words["word"][1]
    files.write_json(copy / "words.json", words)
    with pytest.raises(RaptError, match=r"got the word of row 1 twice, expected each word once"):
        EmbeddingTable(copy)


def test_a_missing_vector_or_table_is_refused(copy: Path) -> None:
    np.save(copy / "vectors.npy", np.load(copy / "vectors.npy")[:-1])
    with pytest.raises(RaptError, match="got 17 vectors, expected one for each"):
        EmbeddingTable(copy)
    with pytest.raises(RaptError, match="expected a folder with an embedding table"):
        EmbeddingTable(copy / "nowhere")


def test_caches_stay_bounded(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rapt.text.table.CACHED", 10)
    table = EmbeddingTable(copy)
    words = [f"un{i}" for i in range(100)]
    for word in words:
        table.embed([word])
    assert table._cached_form.cache_info().currsize == 10
    assert table._cached_mean.cache_info().currsize == 10
    np.testing.assert_array_equal(table.embed(words), EmbeddingTable(copy).embed(words))
