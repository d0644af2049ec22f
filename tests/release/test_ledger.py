"""The ledger of what texts lost: it adds up over commands, and forgets nothing half."""

import json
import os
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
import spacy
from datasets import Dataset

from rapt.data.config import Format
from rapt.release import formats, ledger
from rapt.release.job import Job
from rapt.release.ledger import Ledger, OverBudget, checked
from rapt.release.parts import Parts, Unreachable
from rapt.release.sentences import Counted, counted
from rapt.release.spacy import NAME
from rapt.release.text import AGAIN, TextPrivatizer
from rapt.utils.errors import RaptError

SECRET = "Bob met Alice in Paris"


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "book")


def of(*texts: str) -> list[Counted]:
    """Of which every word gets noise."""
    return [one for text in texts if (one := counted((word, True) for word in text.split()))]


def test_losses_of_one_text_add_up_over_releases(book: Ledger) -> None:
    first = book.spend("first", of(SECRET), 0.6)
    assert (first.again, first.most, first.times) == (0, pytest.approx(3), 1)
    second = book.spend("second", of(SECRET, "another"), 0.4)
    assert (second.again, second.most) == (1, pytest.approx(5))
    assert (second.times, second.here) == (pytest.approx(2.5), pytest.approx(1))
    assert book.total() == (2, 2, pytest.approx(5))
    assert book.most_often() == 2


def test_a_place_that_a_killed_run_repeats_counts_once(book: Ledger) -> None:
    for _ in range(3):
        book.spend("first", of(SECRET), 0.6, "in/0")
    assert book.total() == (1, 1, pytest.approx(3))
    book.spend("first", of(SECRET), 0.6, "in/1")  # the same text twice in one release
    assert book.total() == (1, 1, pytest.approx(6))


def test_what_is_pending_counts_nowhere_else_until_it_is_settled(book: Ledger) -> None:
    within = checked(3)
    assert book.spend("first", of(SECRET), 0.6, budget=within, pending=True).times == 1
    assert book.total() == (0, 0, 0)
    assert book.spend("second", of(SECRET), 0.6, budget=within).again == 0
    with pytest.raises(OverBudget, match=r"^budget: got 6 nats \(2 releases' worth"):
        book.settle(["first"], within)
    assert book.total() == (1, 1, pytest.approx(3))
    for budget in (6, 1):  # what counts already is not refused when a killed run repeats it
        book.settle(["first"], checked(budget))
        assert book.total() == (1, 2, pytest.approx(6))


def test_parts_of_one_release_are_settled_together(book: Ledger) -> None:
    """Each part is within the budget, and knows nothing of the other."""
    for part in ("one", "other"):
        spent = book.spend(part, of(SECRET), 0.6, budget=checked("1x"), pending=True)
        assert (spent.again, spent.times) == (0, 1)
    with pytest.raises(OverBudget, match=r"^budget: got 2 releases' worth .*, 2 of them in this"):
        book.settle(["one", "other"], checked("1x"))
    assert book.total() == (0, 0, 0)


def test_beyond_the_budget_nothing_is_counted(book: Ledger) -> None:
    book.spend("first", of(SECRET), 0.6, budget=checked(3))
    for budget, line in ((5, "got 6 nats .*, expected at most 5 nats"), ("1.5x", "most 1.5 rel")):
        with pytest.raises(RaptError, match=rf"^budget: .*{line}") as error:
            book.spend("second", of("another", SECRET), 0.6, budget=checked(budget))
        assert SECRET not in str(error.value) and "\n" not in str(error.value)
        assert book.total() == (1, 1, pytest.approx(3))


def test_a_first_release_that_is_refused_leaves_a_ledger_that_works(book: Ledger) -> None:
    with pytest.raises(OverBudget):
        book.spend("first", of(SECRET), 0.6, budget=checked(1))
    assert book.total() == (0, 0, 0)
    book.spend("second", of(SECRET), 0.6, budget=checked(5))
    assert book.total() == (1, 1, pytest.approx(3))


@pytest.mark.parametrize("budget", [0, -1, "nan", "inf", "0x", "-2x", "x", "3 releases", "", "3y"])
def test_a_budget_is_nats_or_releases_above_zero(budget: float | str) -> None:
    with pytest.raises(RaptError, match=r"^budget: got '.*', expected nats above 0, as 500, or "):
        checked(budget)


@pytest.mark.parametrize(
    ("before", "now", "times"),
    [
        (0.6, 0.6, 3),
        (1.2, 0.6, 5),  # twice at twice the eta are four of the present releases
        (0.3, 0.6, 2),
        (inf, 0.6, inf),
        (0.6, inf, 3),  # numbered, as none has a bound
    ],
)
def test_a_budget_in_releases_is_in_units_of_the_present_one(
    before: float, now: float, times: float, book: Ledger
) -> None:
    book.spend("first", of(SECRET), before)
    book.spend("second", of(SECRET), before)
    if times < inf:
        assert book.spend("third", of(SECRET), now, budget=checked(f"{times}x")).times == times
    with pytest.raises(OverBudget):
        book.spend("fourth", of(SECRET), now, budget=checked(f"{min(times, 9) - 0.1}x"))


SENTENCES = [
    "The doctor met Alice in Nairobi on Monday .",
    "She told her of the result at once !",
    "Nobody else has read that letter since .",
    "Bob thinks that it will be burnt soon ?",
]
FOOTER = "This message is for its addressee alone and confidential ."


def document(*numbers: int) -> str:
    return " ".join(SENTENCES[number] for number in numbers)


@pytest.mark.parametrize(
    ("edited", "times"),
    [
        (document(0, 1, 2), 2),  # as it was
        (document(0, 1, 2, 3), 2),  # one sentence more: the common edit
        (document(3, 0, 1, 2), 2),
        (document(0, 2), 2),
        (document(2, 1, 0), 2),
        (document(1), 2),
        (document(0, 1, 2).replace(".", "...").replace("!", ","), 2),
        (f"Thanks . {document(0, 1, 2)} Bye .", 2),
        (document(0, 3), 2),  # half of its words
        (document(3) + " " + FOOTER + " " + document(0), 1),  # a third
        (document(3), 1),
    ],
)
def test_an_edited_text_is_known_by_half_of_its_words(
    edited: str, times: float, book: Ledger
) -> None:
    book.spend("first", of(document(0, 1, 2)), 1.0)
    spent = book.spend("second", of(edited), 1.0)
    assert (spent.times, spent.again) == (times, times > 1)


def test_what_many_texts_share_does_not_make_them_one(book: Ledger) -> None:
    """A footer, and sentences that are too short for an account."""
    texts = [f"{document(n)} {FOOTER} Thank you . {SENTENCES[n][:-1]} again ." for n in range(4)]
    assert book.spend("mails", of(*texts), 1.0, budget=checked("1x")).times == 1
    assert book.spend("one more", of(FOOTER), 1.0).times == 5
    assert book.spend("another", of("Thank you ."), 1.0).times == 1


def test_a_list_without_a_sign_is_known_when_a_word_is_added(book: Ledger) -> None:
    words = [f"word{n}" for n in range(200)]
    book.spend("first", of(" ".join(words)), 1.0)
    assert book.spend("second", of(" ".join(["new", *words])), 1.0).times == 2
    assert book.spend("third", of(" ".join([*words[:90], "new", *words[90:]])), 1.0).times == 3


def test_it_holds_no_text_and_is_its_owner_s_alone(book: Ledger) -> None:
    for pending in (False, True):
        book.spend(f"release {pending}", of(SECRET), 1.0, pending=pending)
    assert {path.name for path in book.folder.iterdir()} == {"ledger.sqlite", "ledger.key"}
    for path in book.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not any(word in path.read_bytes().lower() for word in (b"alice", b"paris"))
    assert stat.S_IMODE(book.folder.stat().st_mode) == 0o700
    other = Ledger(book.folder.with_name("other"))
    other.spend("release", of(SECRET), 1.0)
    assert key_of(other).read_bytes() != key_of(book).read_bytes()


def key_of(book: Ledger) -> Path:
    return book.folder / "ledger.key"


def spend(folder: Path, number: int) -> float:
    return Ledger(folder).spend(f"release {number}", of(SECRET), 0.6).most


def test_processes_share_it(book: Ledger) -> None:
    with ProcessPoolExecutor(4) as pool:
        most = list(pool.map(spend, [book.folder] * 12, range(12)))
    assert sorted(most) == [pytest.approx(3 * number) for number in range(1, 13)]
    assert book.total() == (1, 12, pytest.approx(36))


def test_a_reset_forgets_the_key_too(book: Ledger) -> None:
    book.spend("first", of(SECRET), 0.6)
    before = key_of(book).read_bytes()
    book.reset()
    assert not list(book.folder.iterdir())
    assert book.total() == (0, 0, 0)
    book.spend("second", of(SECRET), 0.6)
    assert key_of(book).read_bytes() != before


def replaced(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


def as_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


CHMOD = "got a mode by which others may use it"
BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no key": ("ledger.key", Path.unlink, "got no ledger.key beside it, expected its key"),
    "an empty key": ("ledger.key", lambda p: replaced(p, b""), "got 0 bytes, expected 32"),
    "a short key": ("ledger.key", lambda p: replaced(p, b"k" * 31), "got 31 bytes, expected 32"),
    "a long key": ("ledger.key", lambda p: replaced(p, b"k" * 33), "got 33 bytes, expected 32"),
    "another key": ("ledger.key", lambda p: replaced(p, b"k" * 32), "got another key than that"),
    "a key that is a folder": ("ledger.key", as_folder, "got no file, expected a file of its own"),
    "a key by a link": ("ledger.key", as_link, "got a symbolic link, expected a file of its own"),
    "a key by a dead link": ("ledger.key", as_dangling_link, "got a symbolic link, expected"),
    "a key for a group": ("ledger.key", lambda p: p.chmod(0o640), CHMOD),
    "a key for all": ("ledger.key", lambda p: p.chmod(0o604), CHMOD),
    "no database": ("ledger.sqlite", Path.unlink, "got no file beside ledger.key, expected"),
    "an empty database": ("ledger.sqlite", lambda p: replaced(p, b""), "got an empty ledger"),
    "a database by a link": ("ledger.sqlite", as_link, "got a symbolic link, expected a file"),
    "a database that is a folder": ("ledger.sqlite", as_folder, "got no file, expected a file"),
    "a database for a group": ("ledger.sqlite", lambda p: p.chmod(0o620), CHMOD),
    "a database for all": ("ledger.sqlite", lambda p: p.chmod(0o644), CHMOD),
    "a folder for all": ("", lambda p: p.chmod(0o755), CHMOD),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_ledger_that_is_not_as_it_was_left_stops_everything(broken: str, book: Ledger) -> None:
    """In one line that says what to do, until that is done; a reset always helps."""
    book.spend("before", of(SECRET), 0.6)
    name, breaks, line = BROKEN[broken]
    breaks(book.folder / name)
    for use in (
        lambda: book.spend("second", of(SECRET), 0.6, budget=checked(3)),
        lambda: book.settle(["before"]),
        book.check,
        book.total,
    ):
        with pytest.raises(RaptError) as error:
            use()
        said = str(error.value)
        assert said.startswith(str(book.folder)) and line in said and "\n" not in said
        assert "rapt ledger --reset" in said or "Try: chmod " in said
    if "Try: chmod " in said:
        mode, path = said.split("Try: chmod ")[1].split()
        Path(path).chmod(int(mode, 8))
        assert book.spend("second", of(SECRET), 0.6).times == 2
    else:
        book.reset()
        assert book.spend("second", of(SECRET), 0.6).times == 1


# Spellings of one text, of which the same words are released from.
SPELLINGS = [
    SECRET + " ",
    SECRET.replace(" ", "  "),
    SECRET.replace(" ", "\n\t"),
    SECRET.replace("Al", "Al\u200b"),
    "\ufeff" + SECRET,
    SECRET.lower(),
    SECRET.upper(),
    SECRET.replace("a", "a\u0301"),
    SECRET.replace("a", "\u00e1"),
    SECRET.replace("Bob", "\uff22\uff4f\uff42"),
    f"{SECRET} .",
    f"{SECRET}!",
    f"\u201c{SECRET}\u201d",
    SECRET.replace(" in", ", in"),
    SECRET.replace(" in", ". in"),
]


@pytest.mark.parametrize("categories", [None, ("noun", "verb", "preposition"), ("all",)])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_text_has_its_account(
    spelling: str, categories: tuple[str, ...] | None, make: Callable[..., TextPrivatizer]
) -> None:
    privatizer = make(eta=0.1, categories=categories, language="any", budget="1.5x")
    privatizer([SECRET])
    with pytest.raises(OverBudget, match=r"^budget: got 2 releases' worth at this eta"):
        privatizer([spelling])
    assert Ledger().total()[:2] == (1, 1)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    path = tmp_path / "in.txt"
    path.write_text(f"{SECRET}\n\nvery slow\n")
    return Job(path, tmp_path / "out.txt", Format(type="text"), ("text",))


def test_a_release_counts_its_texts_and_the_statement_says_nothing_of_it(
    job: Job, make: Callable[..., TextPrivatizer]
) -> None:
    privatizer = make(eta=0.1, categories=("noun",))
    nats = privatizer.privatizer.max_loss
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
        job.run(make(eta=0.1, budget=13.5 * free.privatizer.max_loss))
    assert set(os.listdir(job.path.parent)) == before
    assert Ledger().total() == (0, 0, 0)


FULL = sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize(
    ("where", "error", "raised"),
    [(Parts, KeyboardInterrupt(), KeyboardInterrupt), (ledger, FULL, Unreachable)],
)
def test_a_run_that_stopped_has_spent_nothing_and_goes_on(
    where: Any,
    error: BaseException,
    raised: type[BaseException],
    job: Job,
    make: Callable[..., TextPrivatizer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed after the ledger has a part, and before the release has it; or by a full disk."""
    monkeypatch.setattr(formats, "CHUNK", 20)
    job.path.write_text("".join(f"Bob met {i}\n" for i in range(20)))
    name = "add" if where is Parts else "_add"
    privatizer, added = make(eta=0.1, budget=9e9), getattr(where, name)
    calls = iter(range(3))

    def add(*args: Any) -> None:
        if next(calls, None) is None:
            raise error
        added(*args)

    with monkeypatch.context() as patch, pytest.raises(raised):
        patch.setattr(where, name, add)
        job.run(privatizer)
    assert len([*job.out.parent.glob("out.txt.parts/files/*/0*.json")]) == 3
    assert Ledger().total() == (0, 0, 0)
    assert job.run(make(eta=0.1, budget=9e8)).nats == pytest.approx(
        3 * privatizer.privatizer.max_loss
    )
    assert Ledger().total() == (20, 1, pytest.approx(3 * privatizer.privatizer.max_loss))


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
    nats = 5 * make(eta=0.1).privatizer.max_loss
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
    nats = make(eta=0.1).privatizer.max_loss
    assert Ledger().total() == (10, 6, pytest.approx(3 * nats))


def test_workers_of_spacy_count_each_text_once(folder: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe(NAME, config={"table": str(folder), "eta": 0.1})
    texts = [f"Bob met {word}" for word in "abcdefghij"]
    assert len(list(nlp.pipe(texts, batch_size=2, n_process=2))) == 10
    texts_known, releases, _ = Ledger().total()
    assert (texts_known, releases) == (10, 5)
