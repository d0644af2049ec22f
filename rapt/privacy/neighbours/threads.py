"""Parts of a computation beside each other, each on one thread of numpy's and torch's products."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
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


def beside(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The function of each part, in their order: one thread for each core that BLAS may use.

    What a part does between products then runs beside the products of the others. A part on its
    own, or in a thread of such a computation, uses what threads there are.
    """
    if len(parts) == 1 or blas_threads() == 1:
        return [function(part) for part in parts]
    with _ONE_AT_A_TIME:
        pool = _pool(blas_threads())
        with _single_threaded() as start:

            def alone(part: Part) -> Result:
                start()
                return function(part)

            running = [pool.submit(alone, part) for part in parts]
            wait(running)  # also where one raises: none runs on while another computation begins
            return [part.result() for part in running]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that stay: new ones each time would take new memory, some of which is not reused."""
    return ThreadPoolExecutor(workers)


if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextmanager
def _single_threaded() -> Iterator[Callable[[], None]]:
    """One thread for each product; what is given is for each thread to run first.

    BLAS has one number for the process. Torch has one for each thread, which threads started later
    begin with.
    """
    torch = sys.modules.get("torch")
    with _blas().limit(limits=1):
        if torch is None:
            yield lambda: None
            return
        before = torch.get_num_threads()
        try:
            yield lambda: torch.set_num_threads(1)
        finally:
            torch.set_num_threads(before)
