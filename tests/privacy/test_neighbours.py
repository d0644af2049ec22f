import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rapt.privacy import neighbours
from rapt.privacy.neighbours import ExactSearch


def nearest_in_float64(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    offsets = vectors.astype(np.float64)[None] - queries[:, None]
    return np.einsum("qkd,qkd->qk", offsets, offsets).argmin(axis=1)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 7, 64]), st.sampled_from([1, 3, 48]))
@settings(max_examples=60, deadline=None)
def test_equals_the_plain_search_in_float64(seed: int, size: int, dimension: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((size, dimension)).astype(np.float32)
    queries = 3 * rng.standard_normal((20, dimension))
    np.testing.assert_array_equal(
        ExactSearch(vectors)(queries), nearest_in_float64(vectors, queries)
    )


def test_near_ties_that_float32_cannot_separate_are_exact() -> None:
    rng = np.random.default_rng(0)
    base = rng.standard_normal(64).astype(np.float32)
    # Rows that differ in their last bits only, around queries far away.
    vectors = np.stack([np.nextafter(base, np.float32(np.inf) * s) for s in (1, -1)] + [base])
    vectors = np.concatenate([vectors, rng.standard_normal((50, 64)).astype(np.float32)])
    queries = base + 1e-3 * rng.standard_normal((500, 64))
    expected = nearest_in_float64(vectors, queries)
    assert len(set(expected[:500])) == 3
    np.testing.assert_array_equal(ExactSearch(vectors)(queries), expected)


def test_a_true_tie_goes_to_the_lower_row() -> None:
    vectors = np.ones((4, 5), dtype=np.float32)
    assert ExactSearch(vectors)(np.zeros((3, 5))).tolist() == [0, 0, 0]


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((300, 32)).astype(np.float32)
    queries = 4 * rng.standard_normal((777, 32))
    whole = ExactSearch(vectors)(queries)
    monkeypatch.setattr(neighbours, "SCORES", 300 * 13)
    np.testing.assert_array_equal(ExactSearch(vectors)(queries), whole)


def test_no_queries() -> None:
    assert ExactSearch(np.ones((2, 3), dtype=np.float32))(np.empty((0, 3))).shape == (0,)
