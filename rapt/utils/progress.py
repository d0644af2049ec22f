"""Progress bars on a terminal, and lines where there is none: logs stay readable."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, TypeVar

from tqdm import tqdm

T = TypeVar("T")
SECONDS = 10.0  # between two lines


def bar(items: Iterable[T], label: str, total: int) -> Iterable[T]:
    """Show how many of `total` items have passed."""
    return tqdm(items, label, total, leave=False, disable=None, mininterval=0.5)


def counter(label: str, total: int | None, unit: str, *, line: int = 0) -> tqdm[None]:
    """A bar to update by hand, as a context; `total` may be unknown."""
    look = {"position": line, "leave": False, "disable": None, "mininterval": 0.5}
    return tqdm(desc=label, total=total, unit=f" {unit}", **look)


class Steps:
    """Counts the items of a long run: a bar on a terminal, else progress, rate and time left.

    A run that was stopped repeats nothing: the first item that it works on is named in a line.
    """

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        """Start the clock.

        Args:
            label: of the run.
            total: number of items; None: unknown.
            unit: of one item.
        """
        self._label, self._unit = label, unit
        self._total, self._of_total = total, f" of {total:,}" if total else ""
        self._bar = counter(label, total, f"{unit}s")
        self._done = self._skipped = 0
        self._start = self._said = time.monotonic()

    def __enter__(self) -> Steps:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def update(self, items: int, skipped: bool = False) -> None:
        """Count items that are done; skipped ones were done by an earlier run."""
        self._bar.update(items)
        if skipped:
            self._skipped += items
        elif self._skipped and self._done == self._skipped:
            self._say(f"going on at {self._unit} {self._done + 1:,}{self._of_total}")
        self._done += items
        now = time.monotonic()
        if self._done == self._skipped:
            self._start = now
        elif self._bar.disable and now - self._said >= SECONDS:
            self._said = now
            rate = (self._done - self._skipped) / (now - self._start)
            left = f", {_duration((self._total - self._done) / rate)} left" if self._total else ""
            self._say(f"{self._done:,}{self._of_total} {self._unit}s, {rate:.3g} a second{left}")

    def _say(self, text: str) -> None:
        self._bar.write(f"{self._label}: {text}", file=sys.stderr)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
