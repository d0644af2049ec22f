"""The ledger: the loss of each text over all its releases, on the user's own machine.

Noise averages out when a text is released again, and losses add up. The ledger knows texts by a
keyed hash alone. It counts nats whatever the mechanism and its η: the worst case over the words of
the table. It is no part of a release.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from rapt.utils.errors import RaptError
from rapt.utils.files import write_bytes

VERSION = 1
PRIVATE = 0o600
SECONDS = 60.0  # to wait for another process
# A place in a release counts once, however often a killed run repeats it.
TABLES = (
    "CREATE TABLE IF NOT EXISTS losses (text BLOB, release TEXT, place TEXT, nats REAL, "
    "PRIMARY KEY (text, release, place)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS pending (release TEXT PRIMARY KEY) WITHOUT ROWID",
)
COUNTED = "release NOT IN (SELECT release FROM pending)"


class OverBudget(RaptError):
    """A text would lose more over all its releases than it may."""


class Loss(NamedTuple):
    """The loss of a text at one place of a release."""

    text: str
    place: str
    nats: float


@dataclass
class Spent:
    """The losses of a release's texts so far.

    Attributes:
        again: how many places hold a text that was in another release before.
        most: the most that one text has lost over all releases, in nats.
    """

    again: int = 0
    most: float = 0.0

    def update(self, other: Spent) -> None:
        """Add another part of the release."""
        self.again += other.again
        self.most = max(self.most, other.most)


class Ledger:
    """A ledger in a folder: `ledger.sqlite` and its key, which only their owner can read.

    Args:
        folder: where it lies; None: the user's own, in $XDG_DATA_HOME/rapt, or ~/.local/share/rapt.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Name its files; they are made with the first loss."""
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
        self.folder = folder or Path(home) / "rapt"
        self.path = self.folder / "ledger.sqlite"
        self._key = self.folder / "ledger.key"

    def spend(
        self,
        release: str,
        losses: Iterable[Loss],
        budget: float | None = None,
        *,
        pending: bool = False,
    ) -> Spent:
        """Count the losses of some places of a release, all of them or none.

        Args:
            release: an id of the release.
            losses: of its places.
            budget: the most that a text may lose over all releases, in nats; None: any.
            pending: whether they count only once the release is settled.

        Raises:
            OverBudget: a text would lose more.
            RaptError: the ledger cannot be read or written.
        """
        key, spent = self.key(), Spent()
        rows = [(_hash(key, text), release, place, nats) for text, place, nats in losses]
        with self._opened() as database:
            if pending:
                database.execute("INSERT OR IGNORE INTO pending VALUES (?)", (release,))
            database.executemany("INSERT OR IGNORE INTO losses VALUES (?, ?, ?, ?)", rows)
            for text, places in Counter(row[0] for row in rows).items():
                nats, others = database.execute(
                    "SELECT SUM(nats), SUM(release != ?1) FROM losses "
                    f"WHERE text = ?2 AND (release = ?1 OR {COUNTED})",
                    (release, text),
                ).fetchone()
                spent.update(Spent(places if others else 0, nats))
            _check(spent.most, budget)
        return spent

    def settle(self, releases: Sequence[str], budget: float | None = None) -> None:
        """Count what was pending of releases, all of it or nothing; doing it again is no error.

        Raises:
            OverBudget: a text would lose more.
            RaptError: the ledger cannot be read or written.
        """
        if not self.path.exists():  # no word of them got noise
            return
        with self._opened() as database:
            ids = [(release,) for release in releases]
            was = database.executemany("DELETE FROM pending WHERE release = ?", ids).rowcount
            if was and budget is not None:
                database.execute("CREATE TEMP TABLE settled (release TEXT PRIMARY KEY)")
                database.executemany("INSERT INTO settled VALUES (?)", ids)
                (most,) = database.execute(
                    "SELECT MAX(nats) FROM (SELECT SUM(nats) AS nats FROM losses WHERE text IN "
                    "(SELECT text FROM losses NATURAL JOIN settled) "
                    f"AND {COUNTED} GROUP BY text)"
                ).fetchone()
                _check(most or 0.0, budget)

    def total(self) -> tuple[int, int, float]:
        """Return how many texts and releases it knows, and the most that one text has lost."""
        if not self.path.exists():
            return 0, 0, 0.0
        with self._opened() as database:
            texts, releases = database.execute(
                f"SELECT COUNT(DISTINCT text), COUNT(DISTINCT release) FROM losses WHERE {COUNTED}"
            ).fetchone()
            (most,) = database.execute(
                "SELECT MAX(nats) FROM "
                f"(SELECT SUM(nats) AS nats FROM losses WHERE {COUNTED} GROUP BY text)"
            ).fetchone()
        return texts, releases, most or 0.0

    def reset(self) -> None:
        """Forget everything: the key as well, so that no copy of the old ledger can be read."""
        for path in self.folder.glob("ledger.*"):
            path.unlink()

    def key(self) -> bytes:
        """Return the key of the texts' hashes, made by the operating system on first use."""
        with _errors(self._key):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._key.exists():
                own = self._key.with_name(f"{self._key.name}.{os.getpid()}")
                write_bytes(own, [os.urandom(32)], PRIVATE)
                with suppress(FileExistsError):  # another process was first
                    os.link(own, self._key)
                own.unlink()
            return self._key.read_bytes()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the ledger for one transaction, which an error takes back."""
        with _errors(self.path):
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, PRIVATE))
            database = sqlite3.connect(self.path, timeout=SECONDS, isolation_level=None)
            try:
                database.execute("BEGIN IMMEDIATE")
                (version,) = database.execute("PRAGMA user_version").fetchone()
                if version not in (0, VERSION):
                    raise RaptError(
                        f"{self.path}: got a ledger of version {version}, expected {VERSION}. Use "
                        "the rapt that wrote it, or forget it: rapt ledger --reset"
                    )
                for table in TABLES:
                    database.execute(table)
                database.execute(f"PRAGMA user_version = {VERSION}")
                yield database
                database.execute("COMMIT")
            finally:
                database.close()  # takes back what was not committed


@dataclass
class Account:
    """Spends for one release, or for many.

    Attributes:
        ledger: where it is counted; None: nowhere, as nothing is released, or noise is seeded.
        budget: the most that a text may lose over all its releases, in nats; None: any.
        release: id of the release; None: each spending is a release of its own.
        pending: whether it counts only once the release is settled.
        spent: so far.
    """

    ledger: Ledger | None
    budget: float | None = None
    release: str | None = None
    pending: bool = False
    spent: Spent = field(default_factory=Spent)

    def spend(self, losses: Iterable[Loss]) -> None:
        """Count losses before anybody sees what caused them; see `Ledger.spend`."""
        if self.ledger and (some := list(losses)):
            release = self.release or uuid4().hex
            self.spent.update(self.ledger.spend(release, some, self.budget, pending=self.pending))


NOWHERE = Account(None)


def checked(budget: float | None) -> float | None:
    """Return a budget that may be.

    Raises:
        RaptError: it is not above 0.
    """
    if budget is not None and not budget > 0:
        raise RaptError(f"budget: got {budget:g}, expected nats above 0.")
    return budget


def _check(most: float, budget: float | None) -> None:
    if budget is not None and most > budget:
        raise OverBudget(
            f"budget: got {most:.4g} nats for a text over all its releases, expected at most "
            f"{budget:g}. Take a smaller eta or fewer categories."
        )


def _hash(key: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode(), key=key, digest_size=16).digest()


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise RaptError(
            f"{path}: got an error ({error}), expected a ledger that can be written. Free its "
            "disk, or name another place by XDG_DATA_HOME."
        ) from None
