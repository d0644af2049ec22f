import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.measures.geometry import neighbour_distances, pairwise
from rapt.text.table import EmbeddingTable


def on_a_line(table: EmbeddingTable) -> EmbeddingTable:
    """Words 0, 1, 2, … apart by 1."""
    line = EmbeddingTable(table.folder)
    line.vectors = np.zeros((18, 8), np.float32)
    line.vectors[:, 0] = np.arange(18)
    return line


def test_neighbours_by_hand(table: EmbeddingTable) -> None:
    # On a line of 18 the 10th neighbour of word i is max(5, 10 - i, i - 7) away.
    tenth = np.mean([max(5, 10 - i, i - 7) for i in range(18)])
    assert neighbour_distances(on_a_line(table), 100, 0) == {1: 1.0, 10: pytest.approx(tenth)}


def test_pairs_by_hand(table: EmbeddingTable) -> None:
    found = {row["category"]: row for row in pairwise(on_a_line(table), 100, 0)}
    # One word alone has no pair.
    assert list(found) == ["every word", "noun", "verb"]
    assert [found[name]["words"] for name in found] == [18, 8, 6]
    pairs = [j - i for j in range(8) for i in range(j)]
    assert found["noun"]["mean"] == pytest.approx(np.mean(pairs))
    assert found["noun"]["variance"] == pytest.approx(np.var(pairs))


@given(st.integers(2, 18), st.integers(0, 99))
def test_samples_are_of_the_table(table: EmbeddingTable, words: int, seed: int) -> None:
    vectors = table.vectors.astype(np.float64)
    nearest = [
        np.sort(np.linalg.norm(vectors - vector, axis=1))[1] for vector in vectors
    ]  # of itself: 0
    assert min(nearest) <= neighbour_distances(table, words, seed)[1] <= max(nearest)
    for row in pairwise(table, words, seed):
        assert 0 < row["mean"] < 2 * np.linalg.norm(vectors, axis=1).max()
