import numpy as np
import pytest

from rapt.text.table import EmbeddingTable


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
