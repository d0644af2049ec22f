"""The search by either first pass, against a plain search in float64; and the bounds themselves."""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from rapt.privacy.neighbours import ExactSearch, first_pass
from rapt.privacy.neighbours import search as searches
from tests.privacy.neighbours.on_device import by_device
from tests.privacy.neighbours.tables import KINDS, plain, table

Nearest = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def by_cpu(vectors: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    return ExactSearch(vectors).nearest(queries, k)


by_either_pass = pytest.mark.parametrize("nearest", [by_cpu, by_device])


@by_either_pass
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 31, 33, 700, 2100]),
    st.sampled_from([1, 3, 48]),
    st.sampled_from(KINDS),
    st.sampled_from([0.0, 1e-3, 3.0, 1e4]),
    st.sampled_from([1, 2, 5, 2100]),
)
@settings(max_examples=60)
def test_equals_the_plain_search_in_float64(
    nearest: Nearest, seed: int, size: int, dimension: int, kind: str, noise: float, k: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors = table(rng, size, dimension, kind)
    queries = vectors[rng.integers(0, size, 20)] + noise * rng.standard_normal((20, dimension))
    k = min(k, size)
    np.testing.assert_array_equal(nearest(vectors, queries, k), plain(vectors, queries, k))


@by_either_pass
@pytest.mark.parametrize("k", [1, 2, 1500])
def test_ties_between_two_rows_are_exact(nearest: Nearest, k: int) -> None:
    """Queries half-way between two rows, up to a few of float64's last bits."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((1500, 64)).astype(np.float32)
    pairs = rng.integers(0, 1500, (300, 2))
    queries = vectors[pairs].astype(np.float64).mean(axis=1)
    queries += 1e-15 * rng.standard_normal(queries.shape)
    expected = plain(vectors, queries, max(k, 2))
    # Both of a pair win somewhere, though float32 sees no difference.
    lower = expected[:, 0] == pairs.min(axis=1)
    assert 50 < lower.sum() < 250
    np.testing.assert_array_equal(nearest(vectors, queries, k), expected[:, :k])


@by_either_pass
@pytest.mark.parametrize("k", [1, 200])
@pytest.mark.parametrize("scale", [1e-42, 1e-38, 1e-22, 1e-8, 1e8, 1e15, 1e18, 1e22, 1e37])
def test_norms_that_float32_cannot_multiply(nearest: Nearest, scale: float, k: int) -> None:
    rng = np.random.default_rng(2)
    with np.errstate(under="ignore"):
        vectors = (scale * rng.standard_normal((200, 12))).astype(np.float32)
    queries = scale * rng.standard_normal((30, 12))
    np.testing.assert_array_equal(nearest(vectors, queries, k), plain(vectors, queries, k))


@by_either_pass
@pytest.mark.parametrize("far", [1e10, 1e25, 1e40, 1e300])
def test_far_queries_beside_near_ones(nearest: Nearest, far: float) -> None:
    """Where the distances of the definition are themselves rounded: the same rows win."""
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((400, 9)).astype(np.float32)
    queries = rng.standard_normal((40, 9))
    queries[::3] *= far
    np.testing.assert_array_equal(nearest(vectors, queries, 3), plain(vectors, queries, 3))


@by_either_pass
def test_a_true_tie_goes_to_the_lower_row(nearest: Nearest) -> None:
    """Also where so many rows tie that a first pass gives up."""
    for size in (4, 3000):
        vectors = np.ones((size, 5), dtype=np.float32)
        vectors[0] = 2
        assert nearest(vectors, np.zeros((3, 5)), 2).tolist() == [[1, 2]] * 3
    assert nearest(np.ones((1, 5), dtype=np.float32), np.zeros((3, 5)), 1).tolist() == [[0]] * 3


def test_batches_and_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((2500, 32)).astype(np.float32)
    queries = 4 * rng.standard_normal((1300, 32))
    whole = plain(vectors, queries)[:, 0]
    search = ExactSearch(vectors)
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            np.testing.assert_array_equal(search(queries), whole)
    parts = np.concatenate([search(queries[i : i + 7]) for i in range(0, len(queries), 7)])
    np.testing.assert_array_equal(parts, whole)
    monkeypatch.setattr(first_pass, "ROWS", 64)
    monkeypatch.setattr(searches, "QUERIES", 64)
    np.testing.assert_array_equal(ExactSearch(vectors)(queries), whole)


def test_the_process_keeps_its_threads() -> None:
    vectors = np.eye(40, dtype=np.float32)
    with threadpool_limits(2, user_api="blas"):
        before = [library["num_threads"] for library in threadpool_info()]
        ExactSearch(vectors)(np.zeros((2000, 40)))
        after = [library["num_threads"] for library in threadpool_info()]
    assert after == before


def test_a_forked_process_starts_its_own_threads() -> None:
    def search() -> list[int]:
        with threadpool_limits(2, user_api="blas"):
            rows: list[int] = ExactSearch(vectors)(vectors[::-1]).tolist()
        return rows

    vectors = np.random.default_rng(4).standard_normal((100, 8)).astype(np.float32)
    expected = search()
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: writer.send(search()))
    child.start()
    assert reader.poll(30)
    assert reader.recv() == expected == list(range(99, -1, -1))
    child.join()


def test_a_mapped_table_is_not_kept_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    vectors = rng.standard_normal((20_000, 256)).astype(np.float32)  # 20 MB
    queries = rng.standard_normal((60, 256))
    expected = [str(row) for row in plain(vectors, queries)[:, 0]]
    np.save(tmp_path / "vectors.npy", vectors)
    np.save(tmp_path / "queries.npy", queries)
    code = """
import sys, numpy as np
from rapt.privacy.neighbours import ExactSearch
queries, vectors = np.load(sys.argv[2]), np.load(sys.argv[1], mmap_mode="r")
if sys.argv[3] == "kept":
    vectors = np.asarray(vectors)
rows = ExactSearch(vectors)(queries)
print(*rows, file=sys.stderr)
maps = open("/proc/self/smaps").read().split("/vectors.npy")[1]
print(int(maps.split("Rss:")[1].split()[0]) / 1024, "torch" in sys.modules)
"""
    mapped = {}
    for kept in ("kept", "mapped"):
        run = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "vectors.npy", tmp_path / "queries.npy", kept],
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stderr.split() == expected
        megabytes, torch_imported = run.stdout.split()
        assert torch_imported == "False"
        mapped[kept] = float(megabytes)
    assert mapped["kept"] > 19
    assert mapped["mapped"] == 0


def test_no_queries() -> None:
    search = ExactSearch(np.ones((2, 3), dtype=np.float32))
    assert search(np.empty((0, 3))).shape == (0,)
    assert search.nearest(np.empty((0, 3)), 2).shape == (0, 2)


def test_k_and_size_are_checked() -> None:
    search = ExactSearch(np.ones((2, 3), dtype=np.float32))
    for k in (0, 3):
        with pytest.raises(ValueError, match=f"k: got {k}, expected 1 to 2"):
            search.nearest(np.zeros((1, 3)), k)
    with pytest.raises(ValueError, match="vectors: got 0 rows, expected 1"):
        ExactSearch(np.empty((0, 3), dtype=np.float32))
