"""The ledger of what texts lost: it adds up over commands, and forgets nothing half."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rapt.release import ledger as module
from rapt.release.formats import FORMATS
from rapt.release.job import Job
from rapt.release.ledger import Ledger, Loss
from rapt.release.text import TextPrivatizer
from rapt.utils.errors import RaptError

SECRET = "Bob met Alice in Paris"


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "book")


def one(text: str = SECRET, nats: float = 3.0, place: str = "in/text/0") -> list[Loss]:
    return [Loss(text, place, nats)]


def test_losses_of_one_text_add_up_over_releases(book: Ledger) -> None:
    first = book.spend("first", one())
    assert (first.again, first.most) == (0, 3)
    second = book.spend("second", [*one(nats=2), *one("another", 4, "in/text/1")])
    assert (second.again, second.most) == (1, 5)
    assert book.total() == (2, 2, 5)


def test_a_place_that_a_killed_run_repeats_counts_once(book: Ledger) -> None:
    for _ in range(3):
        book.spend("first", one())
    assert book.total() == (1, 1, 3)
    book.spend("first", one(place="in/text/7"))  # the same text twice in one release
    assert book.total() == (1, 1, 6)


def test_beyond_the_budget_nothing_is_counted(book: Ledger) -> None:
    book.spend("first", one(), budget=3)
    with pytest.raises(RaptError, match=r"^budget: got 6 nats .*, expected at most 5\. ") as error:
        book.spend("second", [*one("another"), *one()], budget=5)
    assert SECRET not in str(error.value) and "\n" not in str(error.value)
    assert book.total() == (1, 1, 3)


def test_it_holds_no_text_and_is_its_owner_s_alone(book: Ledger) -> None:
    book.spend("first", one())
    assert {path.name for path in book.folder.iterdir()} == {"ledger.sqlite", "ledger.key"}
    for path in book.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not any(word in path.read_bytes() for word in (b"Alice", b"Paris"))
    other = Ledger(book.folder.with_name("other"))
    assert other.key() != book.key()


def spend(folder: Path, number: int) -> float:
    return Ledger(folder).spend(f"release {number}", one()).most


def test_processes_share_it(book: Ledger) -> None:
    with ProcessPoolExecutor(4) as pool:
        most = list(pool.map(spend, [book.folder] * 12, range(12)))
    assert sorted(most) == [3 * number for number in range(1, 13)]
    assert book.total() == (1, 12, 36)


def test_a_reset_forgets_the_key_too(book: Ledger) -> None:
    book.spend("first", one())
    before = book.key()
    book.reset()
    assert book.total() == (0, 0, 0)
    assert book.key() != before


def test_what_cannot_be_used_is_one_line(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    book.spend("first", one())
    with sqlite3.connect(book.path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(RaptError, match=r"got a ledger of version 7, expected 1\. "):
        book.spend("second", one())
    book.path.write_bytes(b"no database " * 100)
    with pytest.raises(RaptError, match=r"got an error \(file is not a database\), expected"):
        book.spend("second", one())
    full = sqlite3.OperationalError("database or disk is full")

    def connect(*_: object, **__: object) -> None:
        raise full

    monkeypatch.setattr(module.sqlite3, "connect", connect)
    with pytest.raises(RaptError, match=r"disk is full\), expected a ledger .*Free its disk"):
        book.spend("second", one())


@pytest.fixture
def job(tmp_path: Path, book: Ledger) -> Job:
    path = tmp_path / "in.txt"
    path.write_text(f"{SECRET}\n\nvery slow\n")
    return Job(path, tmp_path / "out.txt", FORMATS["text"], ("text",), ledger=book)


def test_a_release_counts_its_texts_and_the_statement_says_nothing_of_it(
    job: Job, book: Ledger, make: Callable[..., TextPrivatizer]
) -> None:
    privatizer = make(eta=0.1, categories=("noun",))
    counts = job.run(privatizer)
    assert (counts.again, counts.nats) == (0, pytest.approx(3 * privatizer.nats))
    assert book.total()[:2] == (1, 1)  # no word of the others got noise
    again = replace(job, out=job.out.with_name("again.txt")).run(privatizer)
    assert (again.again, again.nats) == (1, pytest.approx(6 * privatizer.nats))
    told = json.loads(job.out.with_name("again.txt.privacy.json").read_text())
    assert not {"again", "nats"} & set(told)


def test_a_release_beyond_the_budget_leaves_nothing(
    job: Job, book: Ledger, make: Callable[..., TextPrivatizer]
) -> None:
    before = set(os.listdir(job.path.parent))
    with pytest.raises(RaptError, match=r"^budget: got "):
        replace(job, budget=1e-6).run(make(eta=0.1))
    assert set(os.listdir(job.path.parent)) - before <= {"book"}
    assert book.total() == (0, 0, 0)
