"""A Dask scheduler's workers leave what one process leaves, though one is killed."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from distributed import LocalCluster
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL

from pipelines import privatize
from rapt.data.config import Format
from rapt.privacy.fates import Counts
from rapt.release import pool
from rapt.release.job import Job
from rapt.release.text import TextPrivatizer
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.conftest import ROOT, wait_until
from tests.pipelines.conftest import PATIENCE
from tests.release.test_pool import NAMES, SECRET, content, write

FLOW = (sys.executable, "-m", "pipelines.privatize")
ROWS = 6_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    options = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(2, threads_per_worker=1, processes=True, **options) as cluster:
        yield cluster


@pytest.mark.slow
def test_two_workers_leave_the_bytes_of_one_process_though_one_is_killed(
    tmp_path: Path, server: str, table: EmbeddingTable, cluster: LocalCluster
) -> None:
    """The other goes on with its file. Prefect is told no text."""
    (tmp_path / "in").mkdir()
    for name in NAMES:
        write(tmp_path / "in" / name, ROWS)
    folders = [str(tmp_path / "in"), str(tmp_path / "out")]
    options = ["--table", str(table.folder), "--eta", "1", "--insecure-seed", "3"]
    flow = subprocess.Popen(
        [*FLOW, cluster.scheduler_address, *folders, *options],
        cwd=ROOT,
        env=os.environ | {"PREFECT_API_URL": server},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    begun = "out.parts/files/*.parts/000000.json"
    wait_until(lambda: any(tmp_path.glob(begun)) or flow.poll() is not None)
    assert flow.poll() is None, flow.communicate()[0]
    psutil.Process(next(iter(cluster.workers.values())).pid).kill()
    said = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 0, said
    assert "Traceback" not in said
    assert f"{3 * ROWS} documents" in said
    assert SECRET not in said
    job = Job(tmp_path / "in", tmp_path / "one", Format(type="parquet"))
    job.run(TextPrivatizer(table=table.folder, eta=1, insecure_seed=3))
    assert content(tmp_path / "out") == content(tmp_path / "one")
    wait_until(lambda: all(name in _stored() for name in NAMES))
    assert not any(word in _stored() for word in (SECRET, "doctor", "verbd"))


class Failing(Job):
    """Whose files fail with an error that quotes them."""

    def release(self, name: str, *_: object) -> Counts:
        raise ValueError(f"could not read {SECRET}")


@pytest.mark.slow
def test_an_error_that_quotes_the_text_is_named_without_it(
    tmp_path: Path,
    server: str,
    table: EmbeddingTable,
    cluster: LocalCluster,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a.parquet", 1)
    failing = Failing(tmp_path / "in", tmp_path / "out", Format(type="parquet"))
    privatizer = TextPrivatizer(table=table.folder, eta=1)
    runner = privatize.task_runner(cluster.scheduler_address)
    with pytest.raises(RaptError, match="got 1 of 1 files that failed"):
        pool.run(failing, privatizer, partial(privatize.release, runner=runner))
    said = "".join(capfd.readouterr())
    line = f"{tmp_path / 'in/a.parquet'}: got an error of the program, ValueError, expected none."
    assert line in said.splitlines()
    assert SECRET not in said
    wait_until(lambda: "a.parquet: got an error of the program, ValueError" in _stored())
    assert SECRET not in _stored()


def _stored() -> str:
    """All that Prefect has stored."""
    database = Path(PREFECT_API_DATABASE_CONNECTION_URL.value().partition("///")[2])
    with sqlite3.connect(database) as opened:
        return "\n".join(opened.iterdump())


def test_it_takes_the_options_of_rapt_privatize(tmp_path: Path, table: EmbeddingTable) -> None:
    write(tmp_path / "in.parquet", 1)
    arguments = [str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), "--eta", "2"]
    given = privatize.options([*arguments, "--column", "a", "--column", "b"])
    assert (given["eta"], [*given["column"]], given["keep_all"]) == (2.0, ["a", "b"], False)
    assert not {"preview", "workers"} & set(given)
    with pytest.raises(RaptError, match=r"column: got 'a', expected text"):
        privatize.start("tcp://127.0.0.1:1", given | {"table": table.folder})


def test_what_it_needs_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privatize, "SECONDS_TO_ANSWER", 0.2)
    with pytest.raises(RaptError, match=r"^scheduler: got 'tcp://127.0.0.1:1', expected one that"):
        privatize.task_runner("tcp://127.0.0.1:1")
    options = {"threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with (
        LocalCluster(1, **options) as threads,
        pytest.raises(RaptError, match=r"^scheduler: got workers of several threads, expected one"),
    ):
        privatize.task_runner(threads.scheduler_address)
    monkeypatch.setitem(sys.modules, "prefect_dask", None)
    with pytest.raises(RaptError, match=r"pip install 'rapt\[scale\]'$"):
        privatize.task_runner("tcp://127.0.0.1:1")
