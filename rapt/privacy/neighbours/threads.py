"""The threads of numpy's matrix products."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _blas() -> ThreadpoolController:
    """Looking for libraries takes milliseconds, and numpy's own is there from the start."""
    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """How many a product may use now."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


def single_blas_thread() -> AbstractContextManager[object]:
    """One for each product, in the whole process."""
    return _blas().limit(limits=1)
