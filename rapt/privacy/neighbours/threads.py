"""Parts of a computation beside each other, each on one thread of numpy's products."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

# The numbers of threads are the whole process's: one computation at a time changes them.
_ONE_AT_A_TIME = threading.Lock()


@cache
def _blas() -> ThreadpoolController:
    """Looking for libraries takes milliseconds, and numpy's own is there from the start."""
    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """How many a product may use now."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


def side_by_side(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The function of each part, in their order: one thread for each core that BLAS may use.

    What a part does between products then runs beside the products of the others. A part on its
    own, or in a thread of such a computation, uses what threads there are.
    """
    if len(parts) == 1 or blas_threads() == 1:
        return [function(part) for part in parts]
    with _ONE_AT_A_TIME:
        pool = _pool(blas_threads())
        with _blas().limit(limits=1):
            running = [pool.submit(function, part) for part in parts]
            wait(running)  # also where one raises: none runs on while another computation begins
            return [part.result() for part in running]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that stay: new ones each time would take new memory, some of which is not reused."""
    return ThreadPoolExecutor(workers)


if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
