"""Many workers leave what one process leaves, whatever happens to one of them."""

from __future__ import annotations

import inspect
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL

from pipelines import privatize
from rapt import cli
from rapt.data.config import Format
from rapt.release.job import Job
from rapt.release.text import TextPrivatizer
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.pipelines.test_reproduce import wait_until

SECRET = "Zanzibar"  # in every text, and no word of the table
NAMES = [f"{letter}.parquet" for letter in "abc"]
ROWS = 6_000
SECONDS = 600  # for a flow, on a loaded machine


def write(path: Path, rows: int, last: bytes | None = None) -> None:
    texts = [f"{SECRET} nouna verbb the nounc verbd row {row}".encode() for row in range(rows)]
    # As Arrow does not look at them, they need not be UTF-8.
    column = pa.array([*texts, *([last] if last else [])], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": column}), path)


@dataclass(frozen=True)
class Work:
    """A folder of texts, and the flow that privatizes it."""

    root: Path
    home: Path  # of Prefect
    table: EmbeddingTable

    @property
    def out(self) -> Path:
        return self.root / "out"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "pipelines.privatize", str(self.root / "in")]
        command += [str(self.out), "--workers", "2", "--table", str(self.table.folder)]
        return [*command, "--eta", "1", "--insecure-seed", "3"]

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(),
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
            | {"PREFECT_HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def unfinished(self) -> list[str]:
        """The files of which a part is done, and not all."""
        parts = self.root.glob("out.parts/files/*.parts/000000.json")
        return [path.parent.name.removesuffix(".parts") for path in parts]

    def known(self) -> bytes:
        """All that Prefect has stored."""
        return b"".join(path.read_bytes() for path in self.home.rglob("*") if path.is_file())


@pytest.fixture
def work(tmp_path: Path, prefect_home: Path, table: EmbeddingTable) -> Work:
    (tmp_path / "in").mkdir()
    for name in NAMES:
        write(tmp_path / "in" / name, ROWS)
    return Work(tmp_path, prefect_home, table)


def one_process(work: Work, out: str = "one") -> dict[str, bytes]:
    folder = work.root / out
    job = Job(work.root / "in", folder, Format(type="parquet"), ("text",))
    job.check()
    job.run(TextPrivatizer(table=work.table.folder, eta=1, insecure_seed=3))
    return content(folder)


def content(folder: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return found | {"statement": Path(f"{folder}.privacy.json").read_bytes()}


def workers(flow: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(flow.pid).children(recursive=True)
    return [child for child in children if any("spawn_main" in word for word in child.cmdline())]


def works_on(worker: psutil.Process, name: str) -> bool:
    return any(f"/{name}.parts/" in opened.path for opened in worker.open_files())


@pytest.mark.slow
def test_two_workers_leave_the_bytes_of_one_process_though_one_is_killed(work: Work) -> None:
    """The other goes on with its file. Prefect is told no text."""
    flow = work.start()
    wait_until(lambda: bool(work.unfinished()) or flow.poll() is not None, SECONDS)
    both = workers(flow)
    for worker in both:
        worker.send_signal(signal.SIGSTOP)  # so that nothing is finished meanwhile
    (name, *_) = work.unfinished()
    (killed,) = (worker for worker in both if works_on(worker, name))
    killed.kill()
    for worker in both:
        if worker != killed:
            worker.send_signal(signal.SIGCONT)
    said = flow.communicate(timeout=SECONDS)[0]
    assert flow.returncode == 0, said
    assert "Traceback" not in said
    assert content(work.out) == one_process(work)
    assert f"{3 * ROWS} documents" in said
    assert SECRET not in said
    stored = work.known()
    assert all(name.encode() in stored for name in NAMES)
    assert SECRET.encode() not in stored
    assert b"verbd" not in stored


@pytest.mark.slow
def test_a_broken_file_is_one_line_and_the_others_are_done(work: Work) -> None:
    write(work.root / "in/b.parquet", ROWS, last=SECRET.encode() + b"\xff")
    flow = work.start()
    said = flow.communicate(timeout=SECONDS)[0]
    assert flow.returncode == 1
    assert (
        f"{work.root / 'in/b.parquet'}: got text that is not UTF-8, expected UTF-8."
        in said.splitlines()
    )
    assert said.strip().endswith(
        "in: got 1 of 3 files that failed, expected none. The others are done."
    )
    assert "Traceback" not in said
    assert SECRET not in said
    assert SECRET.encode() not in work.known()
    done = work.root / "out.parts/files"
    assert sorted(path.name for path in done.iterdir()) == ["a.parquet", "c.parquet"]
    assert not work.out.exists()


class Failing(Job):
    """Whose files fail with an error that quotes them."""

    def release(self, name: str, *_: object) -> object:  # type: ignore[override]
        raise ValueError(f"could not read {SECRET}")


@pytest.mark.slow
def test_an_error_that_quotes_the_text_is_named_without_it(
    tmp_path: Path, server: str, table: EmbeddingTable, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.parquet").touch()
    failing = Failing(tmp_path, tmp_path / "out", Format(type="parquet"), ("text",))
    privatizer = TextPrivatizer(table=table.folder, eta=1)
    with pytest.raises(RaptError, match="got 1 of 1 files that failed"):
        privatize.release(failing, privatizer, privatize.task_runner(1, None))
    said = "".join(capfd.readouterr())
    line = f"{tmp_path / 'a.parquet'}: got an error of the program, ValueError, expected none."
    assert line in said.splitlines()
    assert SECRET not in said
    database = Path(PREFECT_API_DATABASE_CONNECTION_URL.value().partition("///")[2])
    wait_until(lambda: "a.parquet: got an error of the program, ValueError" in _logged(database))
    assert SECRET not in _logged(database)


def _logged(database: Path) -> str:
    with sqlite3.connect(database) as opened:
        return "\n".join(opened.iterdump())


def test_it_takes_the_options_of_rapt_privatize(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = inspect.signature(privatize.main).parameters
    shared = set(inspect.signature(cli.privatize).parameters) - {"preview"}
    assert set(taken) == {*shared, "workers", "scheduler"}
    given: dict[str, Any] = {}
    monkeypatch.setattr(privatize, "start", lambda workers, scheduler, **rest: given.update(rest))
    app = typer.Typer()
    app.command()(privatize.main)
    app(["in", "out", "--eta", "2", "--column", "a", "--column", "b"], standalone_mode=False)
    assert (given["path"], given["eta"], given["column"]) == (Path("in"), 2.0, ["a", "b"])


def test_what_it_needs_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privatize, "SECONDS_TO_ANSWER", 0.2)
    with pytest.raises(RaptError, match=r"^scheduler: got 'tcp://127.0.0.1:1', expected one that"):
        privatize.task_runner(1, "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "prefect_dask", None)
    with pytest.raises(RaptError, match=r"pip install 'rapt\[scale\]'$"):
        privatize.task_runner(1, None)


def test_files_and_streams_are_for_rapt_privatize(tmp_path: Path, table: EmbeddingTable) -> None:
    path = tmp_path / "in.txt"
    path.write_text("nouna\n")
    options: dict[str, object] = dict.fromkeys(inspect.signature(cli.privatize).parameters)
    del options["preview"]
    options |= {"path": path, "out": tmp_path / "out.txt", "eta": 1.0, "table": table.folder}
    options |= {"keep_all": False, "overwrite": False, "names": "noise"}
    with pytest.raises(RaptError, match=r"in.txt: got a file, expected a folder of Parquet"):
        privatize.start(1, None, **options)
    options |= {"path": tmp_path, "out": Path("-")}
    with pytest.raises(RaptError, match=r"^OUT: got -, expected a folder"):
        privatize.start(1, None, **options)
