"""Several workers leave what one process leaves, whatever happens to one of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rapt.data.config import Format
from rapt.privacy.fates import Counts
from rapt.release import pool
from rapt.release.job import Job
from rapt.release.text import TextPrivatizer
from rapt.utils.errors import RaptError
from tests.conftest import ROOT, wait_until

SECRET = "Zanzibar"  # in every text, and no word of the table
NAMES = [f"{letter}.parquet" for letter in "abc"]
ROWS = 12_000  # several chunks a file, so that some are left when the first is done
SECONDS = 300  # for a run, on a loaded machine
RAPT = [sys.executable, "-c", "from rapt.cli import main; main()", "privatize"]


def write(path: Path, rows: int, last: bytes | None = None) -> None:
    texts = [f"{SECRET} film saw the doctor met row {row}".encode() for row in range(rows)]
    # As Arrow does not look at them, they need not be UTF-8.
    column = pa.array([*texts, *([last] if last else [])], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": column}), path)


@dataclass(frozen=True)
class Work:
    """A folder of texts, and the command that privatizes it."""

    root: Path
    table: Path

    @property
    def out(self) -> Path:
        return self.root / "out"

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = [*RAPT, str(self.root / "in"), str(self.out), "--workers", "2", "--eta", "1"]
        return subprocess.Popen(
            [*command, "--table", str(self.table), *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def begin(self, *options: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
        """Start it, and wait until a part of a file is done, and not all; return the workers."""
        command = self.start(*options)
        parts = "out.parts/files/*.parts/000000.json"
        wait_until(lambda: any(self.root.glob(parts)) or command.poll() is not None)
        assert command.poll() is None, command.communicate()[0]
        return command, workers(command)

    def job(self, out: str = "one") -> Job:
        job = Job(self.root / "in", self.root / out, Format(type="parquet"))
        job.check()
        return job


@pytest.fixture(autouse=True)
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command runs, whose workers start sooner for it."""
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def work(few: Work) -> Work:
    for name in NAMES:
        write(few.root / "in" / name, ROWS)
    return few


@pytest.fixture
def few(tmp_path: Path, folder: Path) -> Work:
    """For what needs only files."""
    (tmp_path / "in").mkdir()
    for name in NAMES:
        write(tmp_path / "in" / name, 10)
    return Work(tmp_path, folder)


@pytest.fixture
def seeded(make: Callable[..., TextPrivatizer]) -> TextPrivatizer:
    return make(eta=1, insecure_seed=3)


def workers(command: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(command.pid).children(recursive=True)
    return [child for child in children if any("spawn_main" in word for word in child.cmdline())]


def content(folder: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return found | {"statement": Path(f"{folder}.privacy.json").read_bytes()}


@pytest.mark.slow
def test_workers_leave_the_bytes_of_one_process_though_one_is_killed(
    work: Work, seeded: TextPrivatizer
) -> None:
    command, both = work.begin("--insecure-seed", "3")
    assert len(both) == 2
    assert all(child.num_threads() < 8 for child in both)
    both[0].kill()
    said = command.communicate(timeout=SECONDS)[0]
    assert command.returncode == 0, said
    assert "Traceback" not in said
    assert f"{3 * ROWS} documents" in said
    assert SECRET not in said
    work.job().run(seeded)
    assert content(work.out) == content(work.root / "one")


@pytest.mark.slow
def test_ctrl_c_ends_all_at_once_and_the_same_command_goes_on(
    work: Work, seeded: TextPrivatizer
) -> None:
    command, both = work.begin("--insecure-seed", "3")
    os.killpg(command.pid, signal.SIGINT)  # as the terminal does: the workers get it, too
    said = command.communicate(timeout=SECONDS)[0]
    assert (command.returncode, said) == (
        130,
        "interrupted: the same command goes on where it stopped\n",
    )
    assert not any(child.is_running() for child in both)
    assert not work.out.exists()
    again = work.start("--insecure-seed", "3")
    said = again.communicate(timeout=SECONDS)[0]
    assert again.returncode == 0, said
    assert "privatizing: going on at document " in said
    work.job().run(seeded)
    assert content(work.out) == content(work.root / "one")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends workers")
def test_no_worker_outlives_a_killed_command(work: Work) -> None:
    command, both = work.begin()
    command.kill()
    wait_until(lambda: not any(child.is_running() for child in both))
    command.communicate()


@pytest.mark.slow
def test_a_broken_file_is_one_line_and_the_others_are_done(work: Work) -> None:
    write(work.root / "in/b.parquet", 2 * ROWS, last=SECRET.encode() + b"\xff")
    command = work.start()
    said = command.communicate(timeout=SECONDS)[0]
    assert command.returncode == 2
    assert (
        f"{work.root / 'in/b.parquet'}: got text that is not UTF-8, expected UTF-8."
        in said.splitlines()
    )
    assert said.strip().endswith(
        "in: got 1 of 3 files that failed, expected none. The others are done."
    )
    assert "Traceback" not in said
    assert SECRET not in said
    done = work.root / "out.parts/files"
    assert sorted(path.name for path in done.iterdir()) == ["a.parquet", "c.parquet"]
    assert not work.out.exists()


class Failing(Job):
    """Whose file a kills its worker, and whose file b fails with an error that quotes it."""

    def release(self, name: str, *arguments: object) -> Counts:
        if name == "a.parquet":
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "b.parquet":
            raise ValueError(f"could not read {SECRET}")
        return super().release(name, *arguments)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_file_that_kills_its_workers_is_named_and_so_is_an_error_without_the_text(
    few: Work, seeded: TextPrivatizer, capfd: pytest.CaptureFixture[str]
) -> None:
    failing = Failing(few.root / "in", few.out, Format(type="parquet"))
    with pytest.raises(RaptError, match="got 2 of 3 files that failed, expected none"):
        pool.run(failing, seeded, partial(pool.by_processes, workers=2))
    said = "".join(capfd.readouterr())
    for name, problem in (
        ("a", "a killed worker, as when memory does not suffice, expected one that ends by itself"),
        ("b", "an error of the program, ValueError, expected none"),
    ):
        assert f"{few.root / f'in/{name}.parquet'}: got {problem}." in said.splitlines()
    assert SECRET not in said
    assert [path.name for path in (few.root / "out.parts/files").iterdir()] == ["c.parquet"]


@pytest.mark.slow
def test_workers_count_in_one_ledger(few: Work, make: Callable[..., TextPrivatizer]) -> None:
    limited = make(eta=1, budget="1x")
    for name, text in zip(NAMES, ("saw the film", "met the doctor", "saw a story"), strict=True):
        pq.write_table(pa.table({"text": [f"she {text} in paris"]}), few.root / "in" / name)
    few.job("first").run(limited)
    with pytest.raises(RaptError, match="got 3 of 3 files that failed"):
        pool.run(few.job("second"), limited, partial(pool.by_processes, workers=2))
    assert not (few.root / "second.parts").exists()


def test_a_file_is_for_one_process(few: Work, seeded: TextPrivatizer) -> None:
    one = Job(few.root / "in/a.parquet", few.out, Format(type="parquet"))
    with pytest.raises(RaptError, match=r"a.parquet: got a file or a stream, expected a folder"):
        pool.run(one, seeded, partial(pool.by_processes, workers=2))
