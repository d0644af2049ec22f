"""The ledger: the loss of each text over all its releases, on the user's own machine.

Noise averages out when a text is released again, and losses add up. The ledger knows a text and its
sentences by keyed hashes of their words with noise (`rapt.release.sentences`). It counts nats
whatever the mechanism and its η: the worst case over the words of the table. It is no part of a
release.

A text has been released as often as the greater half of its words: those of the sentences that were
released most. So a document counts as released before if it was edited, and not if it shares a
footer with others.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import NamedTuple
from uuid import uuid4

from rapt.release.parts import PRIVATE, Unreachable
from rapt.release.sentences import Counted, Unit
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.files import write_bytes

VERSION = 2
KEY_BYTES = 32
SECONDS = 60.0  # to wait for another process
ROUNDING = 1 + 1e-9
AT_A_TIME = 500  # accounts in a query, whose parameters SQLite limits
# A place in a release counts once, however often a killed run repeats it.
TABLES = (
    "CREATE TABLE identity (key BLOB)",
    "CREATE TABLE places (id INTEGER PRIMARY KEY, release TEXT, name TEXT, nats REAL, "
    "UNIQUE (release, name))",
    "CREATE TABLE losses (account BLOB, place INTEGER, copies INTEGER, words INTEGER, "
    "wholes INTEGER, "
    "PRIMARY KEY (account, place)) WITHOUT ROWID",
    "CREATE TABLE pending (release TEXT, nats REAL, texts TEXT)",
)
COUNTED = "release NOT IN (SELECT release FROM pending)"
KNOWN = f"losses JOIN places ON place = id WHERE {COUNTED}"
RESTORE = "Restore it from a backup, or forget all releases: rapt ledger --reset"


class OverBudget(RaptError):
    """A text would lose more over all its releases than it may."""


class Budget(NamedTuple):
    """The most that a text may lose over all its releases.

    Attributes:
        most: in nats, or in releases of the text at the present mechanism and η.
        in_releases: which of both.
    """

    most: float
    in_releases: bool = False


@dataclass
class Spent:
    """The losses of a release's texts so far.

    Attributes:
        again: how many texts were in another release before.
        most: the most that one text has lost over all releases, in nats.
        times: the same in releases of that text at the present mechanism and η.
        here: how much of it is this release's.
    """

    again: int = 0
    most: float = 0.0
    times: float = 0.0
    here: float = 0.0

    def update(self, other: Spent) -> None:
        """Add another part of the release."""
        self.again += other.again
        self.most = max(self.most, other.most)
        if other.times > self.times:
            self.times, self.here = other.times, other.here


class Total(NamedTuple):
    """The sums of a ledger.

    Attributes:
        texts: their number.
        releases: their number.
        most: the most that one text or sentence has lost, in nats.
    """

    texts: int = 0
    releases: int = 0
    most: float = 0.0


class Ledger:
    """A ledger in a folder: `ledger.sqlite` and its key, which only their owner can read.

    Args:
        folder: where it lies; None: the user's own, in $XDG_DATA_HOME/rapt, or ~/.local/share/rapt.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Name its files; they are made with the first loss."""
        self.folder = folder or files.of_user("XDG_DATA_HOME", ".local/share") / "rapt"
        self.path = self.folder / "ledger.sqlite"
        self._key = self.folder / "ledger.key"

    def spend(
        self,
        release: str,
        texts: Iterable[Counted],
        nats: float,
        place: str = "",
        budget: Budget | None = None,
        *,
        pending: bool = False,
    ) -> Spent:
        """Count the losses of some texts of a release, all of them or none.

        Args:
            release: an id of the release.
            texts: of one place of the release.
            nats: the most that a word with noise loses.
            place: its name within the release.
            budget: the most that a text may lose over all releases; None: any.
            pending: whether they count only once the release is settled.

        Raises:
            OverBudget: a text would lose more.
            RaptError: the ledger cannot be read or written, or is not as it was left.
        """
        with self._opened() as (database, key):
            hashed = [_hashed(key, text) for text in texts]
            if pending:
                rows = [(release, nats, json.dumps(text)) for text in hashed]
                database.executemany("INSERT INTO pending VALUES (?, ?, ?)", rows)
            new = database.execute(
                "INSERT OR IGNORE INTO places (release, name, nats) VALUES (?, ?, ?)",
                (release, place, nats),
            )
            if new.rowcount:
                _add(database, new.lastrowid, hashed)
            spent = _measured(database, {release}, nats, hashed)
            _check(spent, budget)
        return spent

    def settle(self, releases: Sequence[str], budget: Budget | None = None) -> None:
        """Count what was pending of releases, all of it or nothing; doing it again is no error.

        Raises:
            OverBudget: a text would lose more.
            RaptError: the ledger cannot be read or written, or is not as it was left.
        """
        if not self._exists():  # no word of them got noise
            return
        with self._opened() as (database, _):
            ids = [(release,) for release in releases]
            for one in ids if budget else ():
                rows = database.execute("SELECT nats, texts FROM pending WHERE release = ?", one)
                for nats, text in rows.fetchall():
                    spent = _measured(database, {*releases}, nats, [json.loads(text)])
                    _check(spent, budget)
            database.executemany("DELETE FROM pending WHERE release = ?", ids)

    def total(self) -> Total:
        """Sum up what it knows.

        Raises:
            RaptError: the ledger cannot be read, or is not as it was left.
        """
        if not self._exists():
            return Total()
        with self._opened() as (database, _):
            counts = database.execute(
                "SELECT COUNT(DISTINCT account) FILTER (WHERE wholes), COUNT(DISTINCT release) "
                f"FROM {KNOWN}"
            ).fetchone()
            (most,) = database.execute(
                f"SELECT MAX(lost) FROM (SELECT SUM(words * nats) AS lost FROM {KNOWN} "
                "GROUP BY account)"
            ).fetchone()
        return Total(counts[0], counts[1], most or 0.0)

    def most_often(self) -> int:
        """Count the releases of the text or sentence that was released most often.

        Raises:
            RaptError: as `total`.
        """
        if not self._exists():
            return 0
        with self._opened() as (database, _):
            (times,) = database.execute(
                f"SELECT MAX(times) FROM (SELECT SUM(copies) AS times FROM {KNOWN} "
                "GROUP BY account)"
            ).fetchone()
        return times or 0

    def check(self) -> None:
        """Check that its files are as they were left, before anything is privatized.

        Raises:
            RaptError: they are not, or others can read them.
        """
        if self._exists():
            with self._opened():
                pass

    def reset(self) -> None:
        """Forget everything: the key as well, so that no copy of the old ledger can be read."""
        with _errors(self.folder):
            for path in sorted(self.folder.glob("ledger.*")):  # the key first
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def _exists(self) -> bool:
        return any(map(os.path.lexists, (self.path, self._key)))

    def _check_files(self) -> None:
        """Check what the key and the database are, and who can read them."""
        if not os.path.lexists(self.path) and os.path.lexists(self._key):
            raise RaptError(
                f"{self.path}: got no file beside {self._key.name}, expected the ledger of that "
                f"key. {RESTORE}"
            )
        for path in (self._key, self.path):
            if not os.path.lexists(path):
                continue
            mode = path.lstat().st_mode
            if not S_ISREG(mode):
                kind = "a symbolic link" if S_ISLNK(mode) else "no file"
                raise RaptError(f"{path}: got {kind}, expected a file of its own. {RESTORE}")
            _check_private(path, "600")
        _check_private(self.folder, "700")

    def _opened_key(self, database: sqlite3.Connection) -> bytes:
        """Return the key of the hashes; a new database gets one of the operating system's.

        The database's transaction keeps other processes from making another one.
        """
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise RaptError(
                f"{self.path}: got a ledger of version {version}, expected {VERSION}, which knows "
                "texts by other hashes. Use the rapt that wrote it, or forget it: rapt ledger "
                "--reset"
            )
        is_new = not version
        if is_new and self._key.exists():
            raise RaptError(
                f"{self.path}: got an empty ledger beside {self._key.name}, expected the ledger "
                f"of that key. {RESTORE}"
            )
        if not is_new and not self._key.exists():
            raise RaptError(
                f"{self.path}: got no {self._key.name} beside it, expected its key: without the "
                f"key no text is known again. {RESTORE}"
            )
        if is_new:
            for table in TABLES:
                database.execute(table)
            write_bytes(self._key, [os.urandom(KEY_BYTES)], PRIVATE)
        key = self._key.read_bytes()
        if len(key) != KEY_BYTES:
            raise RaptError(f"{self._key}: got {len(key)} bytes, expected {KEY_BYTES}. {RESTORE}")
        identity = _hash(key, "")
        if is_new:
            database.execute("INSERT INTO identity VALUES (?)", (identity,))
            database.execute(f"PRAGMA user_version = {VERSION}")
            # Whatever the first transaction ends with, the key has its ledger.
            database.execute("COMMIT")
            database.execute("BEGIN IMMEDIATE")
        elif database.execute("SELECT key FROM identity").fetchone() != (identity,):
            raise RaptError(
                f"{self._key}: got another key than that of {self.path.name}, expected the one it "
                f"was made with. {RESTORE}"
            )
        return key

    @contextmanager
    def _opened(self) -> Iterator[tuple[sqlite3.Connection, bytes]]:
        """Open the ledger and its key for one transaction, which an error takes back."""
        with _errors(self.path):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_files()
            is_new = not self.path.exists()
            if is_new:
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, PRIVATE))
            database = sqlite3.connect(self.path, timeout=SECONDS, isolation_level=None)
            try:
                database.execute("BEGIN IMMEDIATE")
                yield database, self._opened_key(database)
                database.execute("COMMIT")
            finally:
                database.close()  # takes back what was not committed


@dataclass
class Account:
    """Spends for one release, or for many.

    Attributes:
        ledger: where it is counted; None: nowhere, as nothing is released, or noise is seeded.
        budget: the most that a text may lose over all its releases; None: any.
        release: id of the release; None: each spending is a release of its own.
        pending: whether it counts only once the release is settled.
        spent: so far.
    """

    ledger: Ledger | None
    budget: Budget | None = None
    release: str | None = None
    pending: bool = False
    spent: Spent = field(default_factory=Spent)

    def spend(self, texts: Iterable[Counted], nats: float, place: str = "") -> None:
        """Count losses before anybody sees what caused them; see `Ledger.spend`."""
        if self.ledger and (some := list(texts)):
            release = self.release or uuid4().hex
            spent = self.ledger.spend(release, some, nats, place, self.budget, pending=self.pending)
            self.spent.update(spent)

    def check(self) -> None:
        """Check the ledger before anything is privatized; see `Ledger.check`."""
        if self.ledger:
            self.ledger.check()


NOWHERE = Account(None)


def checked(budget: float | str | None) -> Budget | None:
    """Parse a budget: nats, as 500 or "500", or releases, as "3x".

    Raises:
        RaptError: it is neither, or not above 0.
    """
    if budget is None:
        return None
    text = str(budget).strip()
    number, in_releases = text.removesuffix("x"), text.endswith("x")
    try:
        most = float(number)
    except ValueError:
        most = math.nan
    if not 0 < most < math.inf:
        raise RaptError(f"budget: got {text!r}, expected nats above 0, as 500, or releases, as 3x.")
    return Budget(most, in_releases)


def _check(spent: Spent, budget: Budget | None) -> None:
    """Refuse what is beyond the budget."""
    if budget is None:
        return
    if (spent.times if budget.in_releases else spent.most) <= budget.most * ROUNDING:
        return
    if spent.most == math.inf:
        unit = "releases" if budget.in_releases else "nats"
        raise OverBudget(
            f"budget: got a text that a release lost without a bound, expected at most "
            f"{budget.most:g} {unit} over all its releases. Leave that text out, or give no budget."
        )
    lost = f"{spent.most:.4g} nats"
    times = f"{spent.times:.3g} releases' worth at this eta"
    result = f"{times} ({lost})" if budget.in_releases else f"{lost} ({times})"
    unit = "releases' worth" if budget.in_releases else "nats"
    raise OverBudget(
        f"budget: got {result} for a text over all its releases, {spent.here:.3g} of them in this "
        f"one, expected at most {budget.most:g} {unit}. Leave that text out, or give more."
    )


Hashed = list[tuple[str, int]]  # of a text and of its sentences: hash, number of words


def _add(database: sqlite3.Connection, place: int | None, texts: Iterable[Hashed]) -> None:
    """Write what the accounts of texts lose at a place, each of them once for a text."""
    copies, words, wholes = Counter[str](), Counter[str](), Counter[str]()
    for (whole, size), *sentences in texts:
        each = dict(sentences) | {whole: size}
        copies.update(each.keys())
        words.update(each)
        wholes[whole] += 1
    rows = [(bytes.fromhex(one), place, copies[one], n, wholes[one]) for one, n in words.items()]
    database.executemany("INSERT INTO losses VALUES (?, ?, ?, ?, ?)", rows)


def _measured(
    database: sqlite3.Connection, ours: set[str], nats: float, texts: Iterable[Hashed]
) -> Spent:
    """Measure what texts have lost, with what is pending of our releases.

    Args:
        database: the ledger.
        ours: ids of our releases.
        nats: the most that a word with noise loses in ours.
        texts: their accounts.
    """
    every_text = list(texts)
    accounts = {account for text in every_text for account, _ in text}
    times = _times(database, ours, nats, sorted(accounts))
    spent = Spent()
    for (whole, words), *sentences in every_text:
        each = [(times[account], size) for account, size in sentences]
        every, others = (
            max(
                times[whole][which],
                _greater_half([(one[which], size) for one, size in each]),
            )
            for which in (0, 1)
        )
        spent.update(Spent(int(others > 0), every * nats * words, every, every - others))
    return spent


def _times(
    database: sqlite3.Connection, ours: set[str], nats: float, accounts: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """How often each account was released, in releases like ours: in all, and in others."""
    times = dict.fromkeys(accounts, (0.0, 0.0))
    marks = ", ".join("?" * len(ours))
    for start in range(0, len(accounts), AT_A_TIME):
        some = list(map(bytes.fromhex, accounts[start : start + AT_A_TIME]))
        columns = f"SUM(copies), TOTAL(copies) FILTER (WHERE release NOT IN ({marks}))"
        chosen = f"account IN ({', '.join('?' * len(some))})"
        rows = database.execute(
            f"SELECT account, nats, {columns} FROM losses JOIN places ON place = id "
            f"WHERE {chosen} AND ({COUNTED} OR release IN ({marks})) GROUP BY account, nats",
            (*ours, *some, *ours),
        )
        for account, lost, copies, elsewhere in rows:
            # Without a bound, releases can only be numbered.
            rate = 1.0 if nats == math.inf else lost / nats
            every, others = times[account.hex()]
            more = rate * elsewhere if elsewhere else 0.0  # a rate may be infinite
            times[account.hex()] = every + rate * copies, others + more
    return times


def _greater_half(sentences: Sequence[tuple[float, int]]) -> float:
    """How often at least half of the words were released, from each sentence's times and words."""
    half, covered = sum(size for _, size in sentences) / 2, 0
    for times, size in sorted(sentences, reverse=True):
        covered += size
        if covered >= half:
            return times
    return 0.0


def _hashed(key: bytes, text: Counted) -> Hashed:
    def hashed(unit: Unit) -> tuple[str, int]:
        return _hash(key, unit.key).hex(), unit.words

    return list(map(hashed, (text.whole, *text.sentences)))


def _hash(key: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode(), key=key, digest_size=16).digest()


def _check_private(path: Path, mode: str) -> None:
    if path.stat().st_mode & 0o077:
        raise RaptError(
            f"{path}: got a mode by which others may use it ({path.stat().st_mode & 0o777:o}), "
            f"expected {mode}. Try: chmod {mode} {path}"
        )


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise Unreachable(
            f"{path}: got an error ({error}), expected a ledger that can be written. Free its "
            "disk, or name another place by XDG_DATA_HOME."
        ) from None
