"""The ledger: the loss of each text over all its releases, on the user's own machine.

Noise averages out when a text is released again, and losses add up. The ledger knows texts by a
keyed hash alone. It counts nats whatever the mechanism and its η: the worst case over the words of
the table. It is no part of a release.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rapt.utils.errors import RaptError
from rapt.utils.files import write_bytes

VERSION = 1
PRIVATE = 0o600
SECONDS = 60.0  # to wait for another process
# A place in a release counts once, however often a killed run repeats it.
TABLE = """
CREATE TABLE IF NOT EXISTS losses (
    text BLOB, release TEXT, place TEXT, nats REAL, PRIMARY KEY (text, release, place)
) WITHOUT ROWID
"""


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


def default_folder() -> Path:
    """The user's own ledger: in $XDG_DATA_HOME/rapt, or ~/.local/share/rapt."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(home) / "rapt"


class Ledger:
    """A ledger in a folder: `ledger.sqlite` and its key, which only their owner can read.

    Args:
        folder: where it lies; None: the user's own.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Name its files; they are made with the first loss."""
        self.folder = folder or default_folder()
        self.path = self.folder / "ledger.sqlite"
        self._key = self.folder / "ledger.key"

    def spend(self, release: str, losses: Sequence[Loss], budget: float | None = None) -> Spent:
        """Count the losses of some places of a release, all of them or none.

        Args:
            release: an id of the release.
            losses: of its places.
            budget: the most that a text may lose over all releases, in nats; None: any.

        Raises:
            RaptError: a text would lose more, or the ledger cannot be read or written.
        """
        key, spent = self.key(), Spent()
        rows = [(_hash(key, text), release, place, nats) for text, place, nats in losses]
        with self._opened() as database:
            database.executemany("INSERT OR IGNORE INTO losses VALUES (?, ?, ?, ?)", rows)
            for text, *_ in rows:
                nats, others = database.execute(
                    "SELECT SUM(nats), SUM(release != ?) FROM losses WHERE text = ?",
                    (release, text),
                ).fetchone()
                spent.update(Spent(int(others > 0), nats))
            if budget is not None and spent.most > budget:
                raise RaptError(
                    f"budget: got {spent.most:.4g} nats for a text over all its releases, expected "
                    f"at most {budget:g}. Take a smaller eta or fewer categories."
                )
        return spent

    def total(self) -> tuple[int, int, float]:
        """Return how many texts and releases it knows, and the most that one text has lost."""
        if not self.path.exists():
            return 0, 0, 0.0
        with self._opened() as database:
            texts, releases = database.execute(
                "SELECT COUNT(DISTINCT text), COUNT(DISTINCT release) FROM losses"
            ).fetchone()
            (most,) = database.execute(
                "SELECT MAX(nats) FROM (SELECT SUM(nats) AS nats FROM losses GROUP BY text)"
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
                database.execute(TABLE)
                database.execute(f"PRAGMA user_version = {VERSION}")
                yield database
                database.execute("COMMIT")
            finally:
                database.close()  # takes back what was not committed


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
