"""Parts of a computation beside each other."""

import threading
import time

import pytest
from threadpoolctl import threadpool_limits

from rapt.privacy.neighbours.threads import blas_threads, side_by_side


def test_results_come_in_the_order_of_the_parts() -> None:
    with threadpool_limits(2):
        assert side_by_side(lambda part: 10 * part, range(5)) == [0, 10, 20, 30, 40]


def test_a_part_on_its_own_keeps_all_threads() -> None:
    with threadpool_limits(2):
        assert side_by_side(lambda _: blas_threads(), [0]) == [2]
        assert side_by_side(lambda _: blas_threads(), [0, 1]) == [1, 1]
        assert blas_threads() == 2


def test_no_part_runs_on_after_another_has_failed() -> None:
    ended = threading.Event()

    def part(which: int) -> None:
        if which == 0:
            raise ValueError("failed")
        time.sleep(0.2)
        ended.set()

    with threadpool_limits(2), pytest.raises(ValueError, match="failed"):
        side_by_side(part, [0, 1])
    assert ended.is_set()
