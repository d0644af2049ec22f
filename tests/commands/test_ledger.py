"""`rapt ledger`, after `rapt privatize`."""

import os
import re
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rapt.release import formats
from rapt.release.ledger import Ledger
from rapt.release.parts import Parts
from rapt.release.sentences import Counted, Unit
from tests.conftest import Rapt
from tests.release.conftest import folder as folder

Said = Callable[..., str]


@pytest.fixture
def rapt(rapt: Rapt, empty: Path) -> Said:
    """All that a command prints."""

    def run(*args: object, status: int = 0) -> str:
        done = rapt(*args)
        assert done.returncode == status
        return done.stdout + done.stderr

    return run


def test_two_releases_of_a_text_are_told_and_forgotten(rapt: Said, folder: Path) -> None:
    Path("in.txt").write_text("Bob met Alice\nBob went\n")
    options = ("--eta", 0.1, "--table", folder)
    assert "ledger" not in rapt("privatize", "in.txt", "one.txt", *options)
    said = rapt("privatize", "in.txt", "two.txt", *options)
    assert (
        "The ledger knows 2 of the texts from earlier releases: losses add up. One of them has now "
        in said
    )
    assert "been released 2 times (" in said
    known = rapt("ledger")
    assert "2 texts in 2 releases; one has lost " in known and "been released 2 times" in known
    refused = rapt("privatize", "in.txt", "three.txt", *options, "--budget", 1e-3, status=2)
    assert refused.startswith("budget: got ") and "expected at most 0.001" in refused
    assert not Path("three.txt").exists()
    refused = rapt("privatize", "in.txt", "three.txt", *options, "--budget", "2.5x", status=2)
    assert refused.startswith("budget: got 3 releases' worth at this eta (")
    assert "1 of them in this one, expected at most 2.5 releases' worth." in refused
    assert not Path("three.txt").exists()
    rapt("privatize", "in.txt", "three.txt", *options, "--budget", "3x")
    assert rapt("ledger", "--reset").startswith("0 texts in 0 releases; one has lost 0 nats")


def test_seeded_releases_do_not_count(rapt: Said, folder: Path) -> None:
    Path("in.txt").write_text("Bob met Alice\n")
    options = ("--eta", 0.1, "--table", folder, "--insecure-seed", 7)
    said = rapt("privatize", "in.txt", "one.txt", *options)
    assert said.endswith(". The ledger counts nothing, as the noise is seeded.\n")
    assert Ledger().total() == (0, 0, 0)
    refused = rapt("privatize", "in.txt", "two.txt", *options, "--budget", 9, status=2)
    assert refused.startswith("budget: got one with an insecure seed, expected none")


def of_another_version() -> None:
    with sqlite3.connect(Ledger().path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()


def no_database() -> None:
    Ledger().path.write_bytes(b"no database " * 999)


def where_nobody_may_write() -> None:
    os.environ["XDG_DATA_HOME"] = "/proc"


def on_a_full_disk() -> None:
    """No file may grow beyond what the ledger has."""
    size = Ledger().path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize(
    ("ledger", "line"),
    [
        (
            of_another_version,
            "got a ledger of version 7, expected 2, which knows texts by other hashes.",
        ),
        (no_database, "got an error (file is not a database), expected a ledger that can be"),
        (where_nobody_may_write, "got an error (["),
        (on_a_full_disk, "expected a ledger that can be written. Free its disk, or name another"),
    ],
)
def test_a_ledger_that_cannot_be_used_refuses_a_release(
    ledger: Callable[[], None], line: str, rapt: Said, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, and nothing is left."""
    own = Ledger()
    own.spend("before", [Counted(Unit(f"bobmet{n}", 3)) for n in range(9)], 1.0)
    Path("in.txt").write_text("".join(f"Bob met {n}\n" for n in range(2000)))
    before = own.total()
    monkeypatch.setenv("XDG_DATA_HOME", os.environ["XDG_DATA_HOME"])  # put back afterwards
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        ledger()
        said = rapt("privatize", "in.txt", "out.txt", "--eta", 0.1, "--table", folder, status=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert line in said and said.count("\n") == 1
    assert os.listdir() == ["in.txt"]
    if ledger in (where_nobody_may_write, on_a_full_disk):
        assert own.total() == before


@pytest.mark.parametrize(
    ("text", "out"), [("\n \t \n", "out.txt"), ("\u200b\u202e\ufeff\n\x01\n", "-")]
)
def test_texts_without_a_word_cost_nothing(text: str, out: str, rapt: Said, folder: Path) -> None:
    Path("in.txt").write_text(text)
    said = rapt("privatize", "in.txt", out, "--eta", 0.1, "--table", folder)
    assert " 0 words" in said
    assert Ledger().total() == (0, 0, 0)


# The Cyrillic letters in it look like Latin ones.
MIXED = "P\u0430ris, w\u0430s gre\u0430tПривет 東京tower שלום مرحبا"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MIXED, 7),
        ("\u202eterces\u202c", 1),
        pytest.param("x" * 10_000_000, 500, marks=pytest.mark.slow),
    ],
)
def test_words_of_any_script_and_length_get_noise(
    text: str, words: int, rapt: Said, folder: Path
) -> None:
    Path("in.txt").write_text(text)
    options = ("--eta", 0.1, "--table", folder, "--categories", "content", "--language", "any")
    said = rapt("privatize", "in.txt", "out.txt", *options)
    assert f" {words} words: {words - text.count(',')} got noise" in said
    released = Path("out.txt").read_text().split()
    assert len(released) == words and not {*released} & {*text.split()}
    assert Path("out.txt").read_text().isascii()


def test_an_interrupted_run_says_that_the_same_command_goes_on(
    rapt: Said, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on with the documents that are left, which the ledger counts once."""
    monkeypatch.setattr(formats, "CHUNK", 20)
    Path("in.txt").write_text("".join(f"Bob met {n}\n" for n in range(30)))
    options = ("--eta", 0.1, "--table", folder)
    added, calls = Parts.add, iter(range(3))

    def add(*args: Any) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        added(*args)

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "add", add)
        said = rapt("privatize", "in.txt", "out.txt", *options, status=130)
    assert said == "interrupted: the same command goes on where it stopped\n"
    assert Ledger().total() == (0, 0, 0)
    said = rapt("privatize", "in.txt", "out.txt", *options)
    assert re.match(r"privatizing: going on at document \d+ of 30\n30 documents", said)
    assert Ledger().total()[:2] == (30, 1)


@pytest.mark.parametrize("breaks", [Path.unlink, lambda p: p.write_bytes(b"")])
def test_a_ledger_without_its_key_stops_before_anything_is_written(
    breaks: Callable[[Path], object], rapt: Said, folder: Path
) -> None:
    Path("in.txt").write_text("Bob met Alice\n")
    options = ("--eta", 0.1, "--table", folder, "--budget", "1x")
    rapt("privatize", "in.txt", "one.txt", *options)
    breaks(Ledger().folder / "ledger.key")
    said = rapt("privatize", "in.txt", "two.txt", *options, status=2)
    assert "rapt ledger --reset" in said and said.count("\n") == 1
    assert not list(Path().glob("two*"))
    assert rapt("ledger", status=2) == said
    assert rapt("ledger", "--reset").startswith("0 texts in 0 releases")
