"""Progress bars: on a terminal only, so that logs stay readable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def bar(items: Iterable[T], label: str, total: int) -> Iterable[T]:
    """Show how many of `total` items have passed."""
    return tqdm(items, label, total, leave=False, disable=None, mininterval=0.5)


def counter(label: str, total: int | None, unit: str, *, line: int = 0) -> tqdm[None]:
    """A bar to update by hand, as a context; `total` may be unknown."""
    look = {"position": line, "leave": False, "disable": None, "mininterval": 0.5}
    return tqdm(desc=label, total=total, unit=f" {unit}", **look)
