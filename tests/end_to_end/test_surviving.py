"""Parallel runs and kills: always the bytes of an undisturbed `dvc repro`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.end_to_end.conftest import Workspace, reduced

pytestmark = pytest.mark.slow


# Of the edit below the one cell that is followed.
CELL = "train@movies-minilm-lora-rapt-75"


def longer(params: dict[str, Any]) -> None:
    """More epochs: each leaves a checkpoint."""
    params["train"]["epochs"] = 6


def test_plain_repro_leaves_the_same_bytes_as_the_flow(built: Workspace, tmp_path: Path) -> None:
    serial = Workspace(tmp_path, reduced)
    serial.dvc("repro", "-q")
    assert serial.read("dvc.lock") == built.read("dvc.lock")
    assert "up to date" in serial.dvc("repro")


@pytest.fixture(scope="module")
def undisturbed(demo: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The demo with an edited cell made anew."""
    workspace = demo.copy(tmp_path_factory.mktemp("undisturbed") / "demo")
    workspace.edit(longer)
    workspace.dvc("repro", "-q", CELL)
    return workspace


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


# That a stage alone dies has tests in tests/pipelines/test_faults.py.
@pytest.mark.parametrize("victims", ["dvc", "both"])
def test_after_a_kill_repro_completes_with_the_same_bytes(
    demo: Workspace, undisturbed: Workspace, tmp_path: Path, victims: str
) -> None:
    workspace = demo.copy(tmp_path / "demo")
    workspace.edit(longer)
    dvc = workspace.popen(
        sys.executable,
        "-m",
        "dvc",
        "repro",
        "-q",
        CELL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        stage = wait_for_stage(dvc, "train")
        checkpoint = wait_for_checkpoint(workspace)
        family = below(dvc.pid)
        assert len(family) > 1
        if victims == "both":
            os.kill(stage.pid, signal.SIGKILL)
        dvc.kill()
        dvc.wait(timeout=60)
        assert gone(family), "a stage went on without its parent"
    finally:
        for process in [*below(dvc.pid), dvc]:
            process.kill()
        dvc.wait()
    if victims == "both":  # DVC, which had begun to write down that its stage is dead
        workspace.run(sys.executable, "-m", "pipelines.repair_locks")
    # The next start takes it up: it says so where the checkpoint is damaged.
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-1])
    assert "got a damaged checkpoint of step" in workspace.dvc("repro", CELL, fails=True)
    checkpoint.write_bytes(whole)
    workspace.dvc("repro", "-q", CELL)
    assert not checkpoint.exists()
    assert workspace.read("dvc.lock") == undisturbed.read("dvc.lock")
