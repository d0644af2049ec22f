"""The budget of private prediction: a file of what a set of teachers has told.

Its first line names the teachers, and each further line is the cost of one query. A query's line is
on the disk before its answer is computed, so no crash gives it back. Costs add up whatever law they
were paid under: a server may start again with another ε or other noise, and the sum stays right.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rapt.utils import files
from rapt.utils.errors import RaptError

PRIVATE = 0o600
ROUNDING = 1e-9  # of sums of many costs


class BudgetSpent(RaptError):
    """Teachers have told all that they may."""


class Budget:
    """What some teachers may still tell.

    Attributes:
        path: the file. A folder's teachers have one for as long as they answer.
    """

    def __init__(self, path: Path, teachers: str, cost: float, most: float) -> None:
        """Open the file, which is made if there is none.

        Args:
            path: the file.
            teachers: their digest.
            cost: of a query.
            most: that all queries may cost, in the same unit.

        Raises:
            RaptError: the file is that of other teachers, or no budget's.
        """
        self.path, self._teachers, self._cost, self._most = path, teachers, cost, most
        self.left()

    def left(self) -> int:
        """Return how many queries are left."""
        with self._locked() as file:
            return self._left(file)

    def spend(self, queries: int) -> None:
        """Write queries down as answered; all of them or, if too few are left, none.

        Raises:
            BudgetSpent: fewer are left.
        """
        with self._locked() as file:
            if (left := self._left(file)) < queries:
                raise BudgetSpent(
                    f"budget: got {queries} queries with {left} left, expected no more. Private "
                    "prediction answers none beyond them."
                )
            self._append(file, f"{json.dumps({'cost': self._cost})}\n" * queries)

    def _left(self, file: int) -> int:
        first, *lines = (
            os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace").split("\n")
        )
        if first != self._first:
            raise RaptError(
                f"ledger: got {str(self.path)!r}, which is not the budget of these teachers, "
                "expected theirs or a new file. Tuning again makes other teachers."
            )
        spent = sum(map(self._read, filter(None, lines)))
        return max(0, int((self._most - spent) / self._cost + ROUNDING * len(lines) + ROUNDING))

    def _read(self, line: str) -> float:
        """Return what a line cost; of a crash's torn line the answer was never sent."""
        try:
            return float(json.loads(line)["cost"])
        except (ValueError, TypeError, KeyError):
            return self._cost

    @property
    def _first(self) -> str:
        return json.dumps({"teachers": self._teachers})

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file, which no other server may read or write meanwhile."""
        try:
            with open(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE)) as opened:
                file = opened.fileno()
                fcntl.flock(file, fcntl.LOCK_EX)
                if not os.fstat(file).st_size:
                    self._append(file, f"{self._first}\n")
                    files.keep_names(self.path.parent)
                yield file
        except OSError as error:
            raise RaptError(
                f"ledger: got {error.strerror} at {str(self.path)!r}, expected a file that can be "
                "written. Free its disk, or name another place."
            ) from None

    def _append(self, file: int, text: str) -> None:
        """Write whole lines, also after a torn one, and wait until they are on the disk."""
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            text = "\n" + text
        content = text.encode()
        while content:
            content = content[os.write(file, content) :]
        os.fsync(file)
