"""Repair after a killed DVC, for users of plain `dvc repro`; test_faults.py tests flows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.repair_locks import repair
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


@pytest.mark.parametrize("seconds", [-5, 5])
def test_a_number_that_another_process_has_since(tmp_path: Path, seconds: int) -> None:
    """A process that is younger than the record did not write it."""
    for command in (("git", "init", "-q"), (sys.executable, "-m", "dvc", "init", "-q")):
        assert run(tmp_path, *command).returncode == 0
    record, other = tmp_path / ".dvc/tmp/rwlock", subprocess.Popen(["sleep", "600"])
    try:
        held = {"pid": other.pid, "cmd": "dvc repro"}
        record.write_text(json.dumps({"write": {"out": held}, "read": {"dep": [held]}}))
        written = time.time() + seconds
        os.utime(record, (written, written))
        assert repair(tmp_path) == ({other.pid} if seconds > 0 else set())
        kept = json.loads(record.read_text())
        assert [bool(kept["write"]), bool(kept["read"]["dep"])] == [seconds > 0] * 2
    finally:
        other.kill()
        other.wait()


def test_no_project_is_one_line(tmp_path: Path) -> None:
    failed = run(tmp_path, sys.executable, "-m", "pipelines.repair_locks")
    assert failed.returncode == 1
    assert failed.stderr.startswith("dvc: you are not inside of a DVC repository")
    assert failed.stderr.count("\n") == 1
