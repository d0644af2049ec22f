"""Repair after a killed DVC, for users of plain `dvc repro`; test_faults.py tests flows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_record_that_was_cut_off(tmp_path: Path) -> None:
    """A kill while DVC records that its stage is dead truncates it nearly every second time."""
    dvc, mend = (sys.executable, "-m", "dvc"), (sys.executable, "-m", "pipelines.repair_locks")
    for command in (("git", "init", "-q"), (*dvc, "init", "-q")):
        assert run(tmp_path, *command).returncode == 0
    (tmp_path / "dvc.yaml").write_text("stages: {one: {cmd: echo 1 > out, outs: [out]}}\n")
    assert run(tmp_path, *mend).returncode == 0  # nothing to mend
    (tmp_path / ".dvc/tmp/rwlock").touch()
    assert "Unable to read RWLock-file" in run(tmp_path, *dvc, "repro").stderr
    mended = run(tmp_path, *mend)
    assert (mended.returncode, mended.stdout, mended.stderr) == (0, "", "")
    assert run(tmp_path, *dvc, "repro").returncode == 0
    assert (tmp_path / "out").read_text() == "1\n"


def test_no_project_is_one_line(tmp_path: Path) -> None:
    failed = run(tmp_path, sys.executable, "-m", "pipelines.repair_locks")
    assert failed.returncode == 1
    assert failed.stderr.startswith("dvc: you are not inside of a DVC repository")
    assert failed.stderr.count("\n") == 1
