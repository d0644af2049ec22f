"""Equal keys give equal streams, other keys other ones."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from rapt.privacy.streams import fresh, stream
from tests.conftest import ROOT


def first(*names: str | int) -> float:
    return stream(*names).random()  # type: ignore[arg-type]


def test_streams_differ_by_every_name_and_repeat() -> None:
    names = [
        (0, 0, "t", "a"),
        (1, 0, "t", "a"),
        (0, 1, "t", "a"),
        (0, 0, "u", "a"),
        (0, 0, "t", "b"),
    ]
    draws = [first(*name) for name in names]
    assert len(set(draws)) == len(draws)
    assert draws == [first(*name) for name in names]
    # Names are separated: "a", "bc" is not "ab", "c".
    assert first(0, "a", "bc") != first(0, "ab", "c")


def test_neighbouring_streams_are_independent() -> None:
    """False alarms: p < 1e-6 for each of three tests."""
    draws = np.array([stream(0, "text", i).standard_normal(2) for i in range(5000)])
    assert stats.kstest(draws[:, 0], "norm").pvalue > 1e-6
    assert stats.spearmanr(draws[:-1, 0], draws[1:, 0]).pvalue > 1e-6
    assert stats.spearmanr(draws[:, 0], draws[:, 1]).pvalue > 1e-6


def numbers(_: object = None) -> list[int]:
    return [int(fresh().integers(1 << 62)) for _ in range(4)]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_never_share_a_fresh_stream(method: str) -> None:
    """Two of 32 numbers of 62 bits agree by chance with p < 1e-15."""
    numbers()  # as a parent that has drawn before it forks
    with multiprocessing.get_context(method).Pool(4) as pool:
        drawn = [n for part in pool.map(numbers, range(8), chunksize=1) for n in part]
    assert len(set(drawn)) == 32


def test_a_restart_never_repeats_a_fresh_stream() -> None:
    code = "from rapt.privacy.streams import fresh; print(fresh().integers(1 << 62))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(3)
    }
    assert len(runs) == 3


def test_fresh_noise_has_its_law() -> None:
    """False alarms: p < 1e-6 for each of two tests."""
    draws = np.array([fresh().standard_normal(2) for _ in range(2000)])
    assert stats.kstest(draws[:, 0], "norm").pvalue > 1e-6
    assert stats.spearmanr(draws[:-1, 0], draws[1:, 1]).pvalue > 1e-6


def test_fresh_is_chacha_of_20_rounds() -> None:
    generator = fresh().bit_generator
    assert type(generator).__name__ == "ChaCha"
    assert generator.state["state"]["rounds"] == 20
