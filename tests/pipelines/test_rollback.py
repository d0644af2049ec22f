"""Files that git tracks are restored if a flow's collecting was interrupted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pipelines import rollback, slots

NAMES = ["dvc.lock", "reports/metrics.json"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a dvc.lock, and no metrics yet."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.lock").write_text("before")
    return tmp_path


def collect_and_die(project: Path) -> None:
    """Act like a flow that is killed while it writes."""
    rollback._keep(project, NAMES)
    (project / "dvc.lock").write_text("stages: half of i")
    (project / "reports").mkdir(exist_ok=True)
    (project / "reports/metrics.json").write_text("new")


def test_what_a_killed_flow_wrote_is_taken_back(project: Path) -> None:
    slots.recover(project)  # nobody was collecting
    collect_and_die(project)
    slots.recover(project)
    assert (project / "dvc.lock").read_text() == "before"
    assert not (project / "reports/metrics.json").exists()
    assert not (project / rollback.FOLDER).exists()
    (project / "reports/metrics.json").write_text("old")
    collect_and_die(project)
    (project / "reports/metrics.json").unlink()  # DVC removes a stage's outs before it makes them
    slots.recover(project)
    assert (project / "reports/metrics.json").read_text() == "old"


def test_what_the_user_wrote_since_stays(project: Path) -> None:
    """Whether written by plain `dvc repro` or by git."""
    collect_and_die(project)
    (project / "dvc.lock").write_text("the user's")
    later = time.time() + rollback.GRACE + 1
    os.utime(project / "dvc.lock", (later, later))
    slots.recover(project)
    assert (project / "dvc.lock").read_text() == "the user's"
    assert not (project / "reports/metrics.json").exists()
    (project / "dvc.lock").write_text("half")
    slots.recover(project)  # once
    assert (project / "dvc.lock").read_text() == "half"


def test_a_block_gives_back_only_when_it_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollback, "SECONDS_BETWEEN_SIGNS", 0.01)
    record = project / rollback.FOLDER / rollback.NAMES
    with pytest.raises(KeyboardInterrupt), rollback.kept(project, NAMES):
        os.utime(record, (0, 0))
        (project / "dvc.lock").write_text("half")
        while record.stat().st_mtime == 0:  # it refreshes its record
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert (project / "dvc.lock").read_text() == "before"
    with rollback.kept(project, NAMES):
        (project / "dvc.lock").write_text("whole")
    assert (project / "dvc.lock").read_text() == "whole"
    assert not (project / rollback.FOLDER).exists()
