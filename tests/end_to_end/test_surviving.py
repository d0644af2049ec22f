"""Parallel runs and kills: always the bytes of an undisturbed `dvc repro`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Workspace, small

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("slots", ["1", "2"])
def test_the_flow_leaves_the_same_bytes(serial: Workspace, tmp_path: Path, slots: str) -> None:
    parallel = Workspace(tmp_path, small)
    parallel.run(sys.executable, "-m", "pipelines.reproduce", "--slots", slots)
    assert parallel.read("dvc.lock") == serial.read("dvc.lock")
    assert "up to date" in parallel.dvc("repro")


def below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def stage_of(pid: int, name: str) -> psutil.Process | None:
    for process in below(pid):
        try:
            if f"stages.{name}" in process.cmdline():
                return process
        except psutil.Error:
            continue
    return None


def wait_for_stage(dvc: subprocess.Popen[str], name: str) -> psutil.Process:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if stage := stage_of(dvc.pid, name):
            return stage
        assert dvc.poll() is None, f"dvc ended before {name} began"
        time.sleep(0.05)
    raise AssertionError(f"{name} did not begin")


def wait_for_checkpoint(workspace: Workspace) -> Path:
    """Of any seed, in the midst of its training."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if found := [*workspace.path.glob(".rapt/checkpoints/*.safetensors")]:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no checkpoint was written")


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=10)
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("victims", ["stage", "dvc", "both"])
def test_after_a_kill_repro_completes_with_the_same_bytes(
    serial: Workspace, tmp_path: Path, victims: str
) -> None:
    workspace = Workspace(tmp_path, small)
    dvc = workspace.popen(
        sys.executable,
        "-m",
        "dvc",
        "repro",
        "-q",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        stage = wait_for_stage(dvc, "train")
        checkpoint = wait_for_checkpoint(workspace)
        family = below(dvc.pid)
        assert len(family) > 1
        if victims in ("stage", "both"):
            os.kill(stage.pid, signal.SIGKILL)
        if victims in ("dvc", "both"):
            dvc.kill()
        dvc.wait(timeout=60)
        assert gone(family), "a stage went on without its parent"
    finally:
        for process in [*below(dvc.pid), dvc]:
            process.kill()
        dvc.wait()
    if victims == "both":  # DVC, which had begun to write down that its stage is dead
        workspace.run(sys.executable, "-m", "pipelines.mend")
    # The next start takes it up: it says so where the checkpoint is damaged.
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-1])
    assert "its checkpoint of step" in workspace.dvc("repro", fails=True)
    checkpoint.write_bytes(whole)
    workspace.dvc("repro", "-q")
    assert not checkpoint.exists()
    assert workspace.read("dvc.lock") == serial.read("dvc.lock")
