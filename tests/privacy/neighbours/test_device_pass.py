"""What is a device's alone; that its rows are those of the plain search: test_search.py."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from rapt.privacy.neighbours import ExactSearch, device_pass
from rapt.privacy.neighbours import search as searches
from rapt.privacy.neighbours.device_pass import DevicePass
from rapt.utils.errors import RaptError
from tests.privacy.neighbours.on_device import CPU, by_device
from tests.privacy.neighbours.tables import KINDS, table


def test_near_ties_are_left_to_float64() -> None:
    """Queries half-way between two rows."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((1500, 64)).astype(np.float32)
    queries = vectors[rng.integers(0, 1500, (100, 2))].astype(np.float64).mean(axis=1)
    decided = DevicePass(vectors, CPU).nearest(queries, 2)[1]
    assert decided.mean() < 0.1


@pytest.mark.parametrize("far", [np.inf, np.nan])
def test_queries_at_no_place_have_the_cpu_s_rows(far: float) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((400, 9)).astype(np.float32)
    queries = rng.standard_normal((40, 9))
    queries[::3] *= far
    rows = by_device(vectors, queries, 3)
    np.testing.assert_array_equal(rows, ExactSearch(vectors).nearest(queries, 3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 5])
def test_a_gpu_finds_the_cpu_s_rows(kind: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    rng = np.random.default_rng(6)
    vectors = table(rng, 20_000, 384, kind)
    queries = vectors[rng.integers(0, 20_000, 400)] + rng.standard_normal((400, 384))
    rows = by_device(vectors, queries, k, torch.device("cuda"))
    np.testing.assert_array_equal(rows, ExactSearch(vectors).nearest(queries, k))


def test_most_queries_are_decided_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the pass is no gain; and its chunks do not matter."""
    rng = np.random.default_rng(4)
    vectors = rng.standard_normal((3000, 32)).astype(np.float32)
    queries = vectors[:1000] + 2 * rng.standard_normal((1000, 32))
    rows, decided = DevicePass(vectors, CPU).nearest(queries, 1)
    assert decided.mean() > 0.99
    monkeypatch.setattr(device_pass, "SCORES", 7 * 3000)
    monkeypatch.setattr(device_pass, "ROWS", 64)
    again = DevicePass(vectors, CPU).nearest(queries, 1)
    np.testing.assert_array_equal(again[0][decided], rows[decided])


def test_its_products_are_float32_whatever_training_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    how, seen = torch.backends.cuda.matmul, list[str]()
    before, how.fp32_precision = how.fp32_precision, "tf32"
    product = torch.Tensor.__matmul__

    def multiplied(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        seen.append(how.fp32_precision)
        return product(one, other)

    monkeypatch.setattr(torch.Tensor, "__matmul__", multiplied)
    try:
        DevicePass(np.eye(3, dtype=np.float32), CPU).nearest(np.eye(3), 1)
        assert (seen, how.fp32_precision) == (["ieee"], "tf32")
    finally:
        how.fp32_precision = before


def test_a_gpu_is_used_once_it_is_worth_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, made = np.eye(40, dtype=np.float32), []
    monkeypatch.setattr(searches, "WORTH", 3 * vectors.size)
    monkeypatch.setattr(searches, "has_gpu", lambda: True)
    monkeypatch.setattr(searches, "device", lambda: torch.device("cuda"))

    def pass_of(table: np.ndarray, where: torch.device) -> DevicePass:
        made.append(where.type)
        return DevicePass(table, CPU)

    monkeypatch.setattr(device_pass, "DevicePass", pass_of)
    search = ExactSearch(vectors)
    for expected in ([], [], ["cuda"], ["cuda"]):
        assert search(vectors[7:8]).tolist() == [7]
        assert made == expected
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(DevicePass, "nearest", None)
    assert search(vectors[7:8]).tolist() == [7]  # by the CPU
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
    monkeypatch.setattr(searches, "device", lambda: torch.device("mps"))
    assert ExactSearch(vectors)(vectors[:5]).tolist() == [*range(5)]
    assert made == ["cuda"]


def test_a_device_that_does_not_exist_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "WORTH", 0)
    monkeypatch.setenv("RAPT_DEVICE", "cuda:9")
    with pytest.raises(RaptError, match=r"^RAPT_DEVICE: got 'cuda:9', expected cpu\.$"):
        ExactSearch(np.eye(3, dtype=np.float32))(np.eye(3))


WITHOUT = """
import sys
import numpy as np
from rapt.privacy.neighbours import ExactSearch, search
search.WORTH = 0
ExactSearch(np.eye(3, dtype=np.float32))(np.eye(3))
assert "torch" not in sys.modules
"""


def test_without_a_gpu_a_search_does_not_import_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAPT_DEVICE", "cpu")
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)
