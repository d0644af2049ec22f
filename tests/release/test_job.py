import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from rapt.data.config import Format
from rapt.release import formats
from rapt.release.formats import STREAM
from rapt.release.job import Job
from rapt.release.parts import Parts
from rapt.release.text import TextPrivatizer
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.release.conftest import FOUR, SENTENCE, Stopped, interrupt, left, restored

KEPT = ["and", "the", "a", "great", "<number>", "!"]
HEAD = "id,text\n"
PARTS = "out.csv.parts/files/in.csv.parts"


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "CHUNK", 300)
    return tmp_path


def rows(count: int) -> str:
    return HEAD + "".join(f"{i},{SENTENCE}\n" for i in range(count))


def given(count: int = 20, **options: object) -> Job:
    Path("in.csv").write_text(rows(count))
    options = {"keep": None} | options
    made = Job(Path("in.csv"), Path("out.csv"), Format(type="csv"), ("text",), **options)  # type: ignore[arg-type]
    made.check()
    return made


def is_complete(count: int) -> bool:
    lines = Path("out.csv").read_text().splitlines()
    kept = [[w for w in line.split(",", 1)[1].split() if w in KEPT] for line in lines[1:]]
    ids = [line.split(",")[0] for line in lines[1:]]
    return ids == [str(i) for i in range(count)] and all(k[-1] == "!" for k in kept)


def test_a_release_has_its_statement_beside_it(pct2t: TextPrivatizer) -> None:
    counts = given().run(pct2t)
    assert is_complete(20)
    assert left() == {"in.csv", "out.csv", "out.csv.privacy.json", "out.csv.privacy.txt"}
    content = json.loads(Path("out.csv.privacy.json").read_text())
    assert content["mechanism"] == "pct2t"
    assert content["eta"] == "0.1"
    assert content["categories"] == list(FOUR)
    assert content["table_sha256"] == pct2t.privatizer.table.sha256
    assert content["documents"] == counts.documents == 20
    assert counts.words == 20 * 15
    assert content["words"]["noise"] == 20 * 9
    numbers = {"number": 20, "email": 0, "url": 0, "handle": 0, "markup": 0}
    assert content["words"]["placeholders"] == numbers
    assert content["words"]["verbatim"]["punctuation"] == 20
    assert content["words"]["verbatim"]["other"] == 20 * 4
    assert content["privatized_columns"] == ["text"]
    assert content["columns"] == ["id"]
    assert content["budget_of_the_longest"]["words"] == 9
    assert "ChaCha20" in content["generator"]
    assert "replaced" not in content
    text = Path("out.csv.privacy.txt").read_text()
    assert "180 words got noise" in text
    assert "Replaced by placeholders: 20 numbers." in text
    assert "weaker than epsilon-differential privacy" in text
    assert "Paris" not in text + json.dumps(content)


def test_a_map_restores_the_words_and_is_private(
    pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = set()
    written = os.open

    def noted(path: str, flags: int, mode: int = 0o777, **rest: int) -> int:
        of_map = Path(path).name.startswith(("map", "0")) and "map" in Path(path).parts[0]
        if of_map and flags & os.O_CREAT:
            modes.add(mode)
        return written(path, flags, mode, **rest)

    monkeypatch.setattr(os, "open", noted)
    given(map=Path("map.jsonl")).run(pct2t)
    assert modes == {0o600}
    assert stat.S_IMODE(Path("map.jsonl").stat().st_mode) == 0o600
    assert "map.jsonl.parts" not in left()
    texts = [line.split(",", 1)[1] for line in Path("out.csv").read_text().splitlines()[1:]]
    assert restored([text.strip('"') for text in texts], Path("map.jsonl")) == {SENTENCE}


def test_no_original_stands_where_the_release_is_made(pct2t: TextPrivatizer) -> None:
    os.mkdir("vault")
    seen: list[str] = []

    def stop(_: Parts) -> None:
        parts = [path for path in Path("out.csv.parts").rglob("*") if path.is_file()]
        seen.extend(path.read_text() for path in parts)
        raise KeyboardInterrupt

    made = given(map=Path("vault/map.jsonl"))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Parts, "join_map", stop)
        made.run(pct2t)
    assert len(seen) > 4
    assert not any("Paris" in content for content in seen)
    assert stat.S_IMODE(Path("vault/map.jsonl.parts").stat().st_mode) == 0o700


def test_an_interrupted_run_goes_on(pct2t: TextPrivatizer) -> None:
    made = interrupt(given(), pct2t, 2)
    assert not Path("out.csv").exists()
    begun = [Path(f"{PARTS}/00000{i}").read_text() for i in range(2)]
    made.check()
    made.run(pct2t)
    assert is_complete(20)
    assert Path("out.csv").read_text().startswith("".join(begun))
    assert json.loads(Path("out.csv.privacy.json").read_text())["words"]["noise"] == 20 * 9


def test_a_run_does_not_go_on_with_another_input(pct2t: TextPrivatizer) -> None:
    made = interrupt(given(), pct2t, 2)
    Path("in.csv").write_text(rows(20).replace("Bob", "Eve", 1))
    with pytest.raises(RaptError, match=r"^out.csv.parts: got another input,"):
        made.run(pct2t)
    Path("in.csv").write_text(rows(20))
    made.run(pct2t)
    assert is_complete(20)


def test_a_run_does_not_go_on_with_other_options(
    pct2t: TextPrivatizer, make: Callable[..., TextPrivatizer]
) -> None:
    made = interrupt(given(), pct2t, 2)
    with pytest.raises(RaptError, match="got another eta, keep_spacing,"):
        made.run(make(eta=0.2, categories=FOUR, keep_spacing=True))


def test_an_input_that_changes_meanwhile_is_refused(
    pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, released = given(), pct2t.release

    def meanwhile(*args: object, **rest: object) -> object:
        Path("in.csv").write_text(rows(20).replace("Bob", "Eve"))
        return released(*args, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pct2t, "release", meanwhile)
    with pytest.raises(RaptError, match=r"^in.csv: got changes while it was read"):
        made.run(pct2t)
    assert left() == {"in.csv"}


def test_an_input_that_is_touched_meanwhile_is_read_once_more(
    pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, released = given(), pct2t.release

    def meanwhile(*args: object, **rest: object) -> object:
        os.utime("in.csv", (1, 1))
        return released(*args, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pct2t, "release", meanwhile)
    made.run(pct2t)
    assert is_complete(20)


def test_an_error_in_the_first_part_leaves_no_original(
    pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(Parts, "add", broken)
    with pytest.raises(ValueError):
        given(map=Path("map")).run(pct2t)
    assert left() == {"in.csv"}


def test_two_runs_do_not_write_one_file(pct2t: TextPrivatizer) -> None:
    made = interrupt(given(), pct2t, 1)
    with (
        FileLock("out.csv.parts/lock"),
        pytest.raises(RaptError, match="got another run that writes it"),
    ):
        made.run(pct2t)


def test_what_stands_is_not_overwritten_by_accident(pct2t: TextPrivatizer) -> None:
    Path("out.csv").write_text("mine")
    with pytest.raises(RaptError, match=r"^out.csv: got an existing file, .* --overwrite"):
        given()
    assert Path("out.csv").read_text() == "mine"
    given(overwrite=True).run(pct2t)
    assert is_complete(20)
    Path("out.csv").unlink()
    Path("map").write_text("mine")
    with pytest.raises(RaptError, match=r"^map: got an existing file"):
        given(overwrite=False, map=Path("map"))


def test_an_old_release_is_not_taken_for_the_new_one(
    pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    Path("out.csv").write_text("old")
    made = given(overwrite=True)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(formats.Csv, "join", stop)  # after its counts are written, before it is there
        made.run(pct2t)
    assert Path("out.csv").read_text() == "old"
    made.check()
    made.run(pct2t)
    assert is_complete(20)


@pytest.mark.parametrize("out", ["in.csv", "./in.csv", "link"])
def test_a_file_is_not_privatized_onto_itself(out: str) -> None:
    Path("link").symlink_to("in.csv")
    Path("in.csv").write_text(rows(3))
    job = Job(Path("in.csv"), Path(out), Format(type="csv"), ("text",), None, overwrite=True)
    with pytest.raises(RaptError, match="one file twice"):
        job.check()
    with pytest.raises(RaptError, match="one file twice"):
        replace(job, out=Path("out"), map=Path(out)).check()
    assert Path("in.csv").read_text() == rows(3)


@pytest.mark.parametrize("content", ["", HEAD])
def test_an_empty_file_is_refused_and_leaves_nothing(content: str, pct2t: TextPrivatizer) -> None:
    Path("in.csv").write_text(content)
    with pytest.raises(RaptError, match=r"^in.csv: "):
        Job(Path("in.csv"), Path("out.csv"), Format(type="csv"), ("text",)).run(pct2t)
    assert left() == {"in.csv"}


def test_a_bad_last_line_shows_before_any_word_is_privatized(pct2t: TextPrivatizer) -> None:
    made = given()
    with Path("in.csv").open("ab") as file:
        file.write(b"21,Zanzibar \xff\n")
    with pytest.raises(RaptError, match=r"^in.csv: line 22: got another encoding"):
        made.run(pct2t)
    assert left() == {"in.csv"}


def test_a_missing_file_is_one_line() -> None:
    with pytest.raises(RaptError, match=r"^in.txt: got no such file"):
        Job(Path("in.txt"), STREAM, Format(type="text"), ("text",)).check()


PROGRAM = """
import sys
from rapt.release import formats
formats.CHUNK = 1000
from rapt.cli import main
main()
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_and_repeats_nothing(folder: Path) -> None:
    count = 500
    Path("in.csv").write_text(rows(count))
    command = [sys.executable, "-c", PROGRAM, "privatize", "in.csv", "out.csv"]
    command += ["--eta", "0.1", "--categories", ",".join(FOUR), "--table", str(folder)]
    command += ["--keep", "id", "--keep-map", "map.jsonl"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 60
        while len(list(Path().glob(f"{PARTS}/0*.json"))) < 3:
            assert run.poll() is None, run.stderr and run.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    done = len(list(Path().glob(f"{PARTS}/0*.json")))
    begun = [Path(f"{PARTS}/{i:06}").read_text() for i in range(done)]
    assert not Path("out.csv").exists()
    assert len("".join(begun).splitlines()) < count
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert is_complete(count)
    assert Path("out.csv").read_text().startswith("".join(begun))
    release = {"out.csv", "out.csv.privacy.json", "out.csv.privacy.txt"}
    assert left() == {"in.csv", "map.jsonl", *release}
    entries = [json.loads(line) for line in Path("map.jsonl").read_text().splitlines()]
    places = [(entry["document"], entry["word"]) for entry in entries]
    assert places == sorted(set(places))
    assert {document for document, _ in places} == set(range(count))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="Linux counts what is read")
@pytest.mark.parametrize("kind", ["text", "csv", "jsonl", "parquet"])
def test_a_file_is_read_at_most_twice(
    kind: str, pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to see that all of it is sound, once to privatize it; its beginning may be read again.

    What is written of it is short here, so that reading its parts counts for nothing.
    """
    monkeypatch.setattr(formats, "CHUNK", 50_000)
    monkeypatch.setattr(pct2t, "release", lambda texts, *names, **how: [[] for _ in texts])
    path = Path(f"in.{kind}")
    for out, rows in (("first", 10), ("out", 15_000)):  # what is imported meanwhile is no part
        numbers = np.random.default_rng(0).integers(10**12, size=(rows, 4)).tolist()
        texts = [" ".join(map(str, some)) for some in numbers]
        if kind == "parquet":
            pq.write_table(pa.table({"text": texts}), path, row_group_size=2_000)
        else:
            lines = [json.dumps({"text": text}) for text in texts] if kind == "jsonl" else texts
            path.write_text("\n".join(["text"] * (kind == "csv") + lines) + "\n")
        made = Job(path, Path(f"{out}.{kind}"), Format(type=kind))  # type: ignore[arg-type]
        made.check()
        before = read_so_far()
        made.run(pct2t)
    assert read_so_far() - before < 2.2 * path.stat().st_size + 100_000


def read_so_far() -> int:
    """The bytes that this process has read."""
    (line, *_) = Path("/proc/self/io").read_text().splitlines()
    return int(line.removeprefix("rchar: "))
