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
from typing import Any

import pytest
import spacy
from datasets import Dataset

from rapt.release import formats
from rapt.release import ledger as module
from rapt.release.formats import FORMATS
from rapt.release.job import Job
from rapt.release.ledger import Ledger, Loss, OverBudget
from rapt.release.parts import Parts
from rapt.release.spacy import NAME
from rapt.release.text import AGAIN, TextPrivatizer
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


def test_what_is_pending_counts_nowhere_else_until_it_is_settled(book: Ledger) -> None:
    assert book.spend("first", one(), budget=3, pending=True).most == 3
    assert book.total() == (0, 0, 0)
    assert book.spend("second", one(), budget=3).again == 0
    with pytest.raises(OverBudget, match=r"^budget: got 6 nats"):
        book.settle(["first"], budget=3)
    assert book.total() == (1, 1, 3)
    for budget in (6, 1):  # what counts already is not refused when a killed run repeats it
        book.settle(["first"], budget)
        assert book.total() == (1, 2, 6)


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
def job(tmp_path: Path) -> Job:
    path = tmp_path / "in.txt"
    path.write_text(f"{SECRET}\n\nvery slow\n")
    return Job(path, tmp_path / "out.txt", FORMATS["text"], ("text",))


def test_a_release_counts_its_texts_and_the_statement_says_nothing_of_it(
    job: Job, make: Callable[..., TextPrivatizer]
) -> None:
    privatizer = make(eta=0.1, categories=("noun",))
    nats = privatizer.privatizer.nats
    counts = job.run(privatizer)
    assert (counts.again, counts.nats) == (0, pytest.approx(3 * nats))
    assert Ledger().total()[:2] == (1, 1)  # no word of the others got noise
    again = replace(job, out=job.out.with_name("again.txt")).run(privatizer)
    assert (again.again, again.nats) == (1, pytest.approx(6 * nats))
    told = json.loads(job.out.with_name("again.txt.privacy.json").read_text())
    assert not {"again", "nats"} & set(told)


# The budget is that of 13.5 words.
@pytest.mark.parametrize("last", ["very " * 14, "Bob met 0\n" * 4])
def test_a_refusal_in_the_middle_of_a_file_leaves_nothing(
    last: str, job: Job, make: Callable[..., TextPrivatizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the parts before it, nor what they would have spent."""
    monkeypatch.setattr(formats, "CHUNK", 20)
    job.path.write_text("".join(f"Bob met {i}\n" for i in range(20)) + last + "\nAlice went")
    before = set(os.listdir(job.path.parent))
    free = make(eta=0.1)
    with pytest.raises(OverBudget, match=r"^budget: got "):
        job.run(make(eta=0.1, budget=13.5 * free.privatizer.nats))
    assert set(os.listdir(job.path.parent)) == before
    assert Ledger().total() == (0, 0, 0)


def test_a_run_that_stopped_has_spent_nothing_and_goes_on(
    job: Job, make: Callable[..., TextPrivatizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "CHUNK", 20)
    job.path.write_text("".join(f"Bob met {i}\n" for i in range(20)))
    privatizer, added = make(eta=0.1, budget=9e9), Parts.add
    calls = iter(range(3))

    def add(*args: Any) -> None:
        """Stop after the ledger has a part, and before the release has it."""
        if next(calls, None) is None:
            raise KeyboardInterrupt
        added(*args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Parts, "add", add)
        job.run(privatizer)
    assert Ledger().total() == (0, 0, 0)
    assert job.run(make(eta=0.1, budget=9e8)).nats == pytest.approx(3 * privatizer.privatizer.nats)
    assert Ledger().total() == (20, 1, pytest.approx(3 * privatizer.privatizer.nats))


# Every way to release text; 5 words of it get noise.
def by_call(privatizer: TextPrivatizer) -> None:
    privatizer([SECRET])


def by_mapper(privatizer: TextPrivatizer) -> None:
    privatizer.mapper()({"text": [SECRET]})


def by_spacy(privatizer: TextPrivatizer) -> None:
    nlp = spacy.blank("en")
    config = {"table": privatizer.table, "eta": privatizer.eta, "budget": privatizer.budget}
    nlp.add_pipe(NAME, config=config)
    nlp(SECRET)


@pytest.mark.parametrize("release", [by_call, by_mapper, by_spacy])
def test_every_way_counts_warns_and_refuses(
    release: Callable[[TextPrivatizer], None],
    make: Callable[..., TextPrivatizer],
    recwarn: pytest.WarningsRecorder,
) -> None:
    nats = 5 * make(eta=0.1).privatizer.nats
    within = make(eta=0.1, budget=2.5 * nats)
    release(within)
    assert not recwarn.list
    assert Ledger().total() == (1, 1, pytest.approx(nats))
    release(within)
    assert [str(warning.message) for warning in recwarn.list] == [AGAIN]
    with pytest.raises(OverBudget):
        release(within)
    assert Ledger().total() == (1, 2, pytest.approx(2 * nats))
    make(eta=0.1, insecure_seed=1)([SECRET])
    assert Ledger().total()[1] == 2


def test_workers_of_datasets_count_each_text_once(make: Callable[..., TextPrivatizer]) -> None:
    texts = [f"Bob met {word}" for word in "abcdefghij"]
    mapper = make(eta=0.1).mapper()
    Dataset.from_dict({"text": texts}).map(mapper, batched=True, batch_size=2, num_proc=2)
    nats = make(eta=0.1).privatizer.nats
    assert Ledger().total() == (10, 6, pytest.approx(3 * nats))


def test_workers_of_spacy_count_each_text_once(folder: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe(NAME, config={"table": str(folder), "eta": 0.1})
    texts = [f"Bob met {word}" for word in "abcdefghij"]
    assert len(list(nlp.pipe(texts, batch_size=2, n_process=2))) == 10
    texts_known, releases, _ = Ledger().total()
    assert (texts_known, releases) == (10, 5)
