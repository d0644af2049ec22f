"""Training in a plain `dvc repro`, killed and taken up: the bytes of the flow."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Workspace

pytestmark = pytest.mark.slow


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


# The flow made all that lies there. `--force` makes a cell again, from no cache: one that tunes by
# every loss there is.
TRAIN = ("repro", "--quiet", "--force", "--single-item", "train@movies-minilm-lora-rapt-75")


# That a stage alone dies, or both, has tests in tests/pipelines/test_faults.py.
def test_a_killed_plain_repro_completes_with_the_bytes_of_the_flow(demo: Workspace) -> None:
    flowed = demo.read("dvc.lock")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dvc = demo.popen(sys.executable, "-m", "dvc", *TRAIN, **quiet)
    try:
        wait_for_stage(dvc, "train")
        checkpoint = wait_for_checkpoint(demo)
        family = below(dvc.pid)
        assert len(family) > 1
        dvc.kill()
        dvc.wait(timeout=60)
        assert gone(family), "a stage went on without its parent"
    finally:
        for process in [*below(dvc.pid), dvc]:
            process.kill()
        dvc.wait()
    # The next start takes it up: it says so where the checkpoint is damaged.
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-1])
    assert "got a damaged checkpoint of step" in demo.dvc(*TRAIN, fails=True)
    checkpoint.write_bytes(whole)
    demo.dvc(*TRAIN)
    assert not checkpoint.exists()
    assert demo.read("dvc.lock") == flowed
    assert "up to date" in demo.dvc("repro")
