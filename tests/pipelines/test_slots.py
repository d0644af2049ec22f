"""The environment and the files of a slot's processes."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dvc.utils.serialize import load_yaml

from pipelines import slots
from pipelines.graph import Stage
from pipelines.schedule import Lease
from rapt.utils.device import VISIBLE
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.pipelines.conftest import FILES, Toy, make

NVIDIA = {"nvidia-smi": "echo GPU-a; echo GPU-b"}
AMD = {"rocm-smi": "echo device,Device Name; echo card0,0x740f; echo card1,0x740f"}
FAILED = {"nvidia-smi": "echo NVIDIA-SMI has failed; exit 9"}


@pytest.mark.parametrize(
    ("scripts", "variables", "found"),
    [
        (NVIDIA, {}, ["GPU-a", "GPU-b"]),
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": "1, 3"}, ["1", "3"]),
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": "2,-1,3"}, ["2"]),
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": ""}, []),
        (NVIDIA, {"RAPT_DEVICE": "cpu"}, []),
        (NVIDIA, {"RAPT_DEVICE": "cuda"}, ["GPU-a", "GPU-b"]),
        (NVIDIA, {"RAPT_DEVICE": "cuda:1"}, ["GPU-b"]),
        (NVIDIA, {"RAPT_DEVICE": "cuda:2"}, []),
        (FAILED, {}, []),
        ({}, {}, []),
        (AMD, {}, ["0", "1"]),
        (FAILED | AMD, {}, ["0", "1"]),
        (AMD, {"HIP_VISIBLE_DEVICES": "1"}, ["1"]),
        (AMD, {"ROCR_VISIBLE_DEVICES": "2,3"}, ["0", "1"]),  # those that it leaves
    ],
)
def test_gpus_are_the_visible_ones_or_those_of_the_driver(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scripts: dict[str, str],
    variables: dict[str, str],
    found: list[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in (*VISIBLE, "RAPT_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    assert slots.gpus() == found


def test_under_wsl_the_driver_lies_beside_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_gpus_are_the_visible_ones_or_those_of_the_driver(
        tmp_path, monkeypatch, NVIDIA, {}, ["GPU-a", "GPU-b"]
    )
    monkeypatch.setattr(slots, "ON_WSL", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert slots.gpus() == ["GPU-a", "GPU-b"]


def test_a_slot_gets_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots.process, "cores", lambda: 5)
    assert {"RAPT_WORKERS": "2", "OMP_NUM_THREADS": "2"}.items() <= slots._seen(None, 2).items()
    monkeypatch.setenv("RAPT_WORKERS", "1")  # the user decides
    assert slots._seen(None, 2)["RAPT_WORKERS"] == "1"


@pytest.mark.slow
def test_an_edit_while_it_collects_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy, collect = make(tmp_path, ""), slots.Served.run
    monkeypatch.chdir(toy.root)
    edits = {"rapt/mark.py": 'MARK = "second"', "stages/new.py": "", "rapt/new.py": ""}
    for path, content in edits.items():

        def edited(*given: Any, path: str = path, content: str = content, **options: Any) -> Path:
            log = collect(*given, **options)
            (toy.root / path).write_text(content)
            return log

        monkeypatch.setattr(slots.Served, "run", edited)
        line = rf"got changes while the flow ran \({path}\)"
        with slots.Slots(toy.root, 1) as here, pytest.raises(RaptError, match=line):
            here.assemble()
        toy.git("checkout", "-q", "rapt")
        toy.git("clean", "-fdq", "rapt", "stages")
    assert not (toy.root / "dvc.lock").exists()
    assert not (toy.root / "reports/metrics.json").exists()


@pytest.mark.slow
def test_a_slot_takes_over_what_others_made_anew(
    done: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And keeps its own, though the others still have the old."""
    monkeypatch.chdir(done.root)
    (done.root / "rapt/mark.py").write_text('MARK = "second"')
    with slots.Slots(done.root, 2) as here:
        for key in ("1-a", "1-b"):
            here.reproduce(Lease(Stage(f"cell@{key}", ()), None))
        mine, other = here._slots
        assert (other.path / "reports/report.txt").exists()  # DVC's checkout is the faster way
        made = {key: lock(slot)[f"cell@{key}"] for key, slot in (("1-a", mine), ("1-b", other))}
        before = lock(mine)
        here._gather(mine, "all")
        assert lock(mine) == before | {f"cell@{key}": entry for key, entry in made.items()}
        assert before["cell@1-b"] != made["1-b"]
        assert (mine.path / "reports/cells/1-b.txt").read_text() == "1-b second"


def lock(slot: slots.Served) -> dict[str, Any]:
    stages: dict[str, Any] = load_yaml(slot.path / "dvc.lock")["stages"]
    return stages


@pytest.mark.slow
def test_an_out_that_dvc_repro_removed_beside_the_flow_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = make(tmp_path, "")
    monkeypatch.chdir(toy.root)
    metrics = toy.root / "reports/metrics.json"
    with slots.Slots(toy.root, 1) as here:
        here.assemble()
    content = metrics.read_bytes()
    for command in (["add", "--force", "dvc.lock", str(metrics)], ["commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *command], check=True)
    with slots.Slots(toy.root, 1) as here:
        metrics.unlink()
        here.assemble()
    assert metrics.read_bytes() == content


def test_what_a_killed_dvc_left_in_a_slot_is_in_nobody_s_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = make(tmp_path, "")
    monkeypatch.chdir(toy.root)
    with slots.Slots(toy.root, 1) as here:
        record = toy.root / ".rapt/slots/0/.dvc/tmp/rwlock"
        record.parent.mkdir(exist_ok=True)
        record.touch()
        here.reproduce(Lease(Stage("cell@1-a", ()), None))
    assert toy.names() == ["1-a", "validate"]


GPU_CELL = """\
import os, sys
import stages
stages.ran(sys.argv[1])
names = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "RAPT_DEVICE"]
names += ["RAPT_WORKERS", "RAPT_CARDS", "RAPT_PER_GPU"]
seen = [os.environ[name] for name in names]
stages.write(f"reports/cells/{sys.argv[1]}.txt", " ".join(seen))
"""


def test_a_slot_s_process_runs_its_stages_each_with_its_gpu_until_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = make(tmp_path, "", FILES | {"stages/cell.py": GPU_CELL})
    monkeypatch.chdir(toy.root)
    monkeypatch.setattr(slots.process, "cores", lambda: 5)
    monkeypatch.setenv("RAPT_DEVICE", "cuda:3")  # of the whole machine
    monkeypatch.setenv("RAPT_CARDS", "4")
    monkeypatch.setenv("RAPT_WORKERS", "6")  # as the user says
    cells = toy.root / ".rapt/slots/0/reports/cells"
    with slots.Slots(toy.root, 1) as here:
        assert here.reproduce(replace(lease("cell@1-a", "GPU-b"), sharing=3))
        first = here._slots[0]._process
        assert here.reproduce(lease("cell@1-b", None))
        assert here._slots[0]._process is first
        seen = [(cells / f"{name}.txt").read_text() for name in ("1-a", "1-b")]
        assert seen == ["GPU-b GPU-b cuda 6 1 3", "  cpu 6 1 1"]
        first.kill()
        first.wait()
        assert here.reproduce(lease("cell@2-a", None))
        assert here._slots[0]._process is not first
    assert here._slots[0]._process.poll() is not None
    with slots.Slots(toy.root, 1) as here:  # what is upstream comes from the cache
        assert here.reproduce(lease("cell@2-b", None)) is not None
        assert here.reproduce(lease("cell@1-a", None)) is None
    assert toy.names() == ["1-a", "1-b", "2-a", "2-b", "validate"]


STAGE = """
import sys
from stages import run
def main() -> None:
    print("at work", flush=True)
    sys.stdin.readline()
run(main)
"""


def stage(root: Path, **environment: str) -> subprocess.Popen[str]:
    """A stage that works in a folder until it is told to end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    known = {name: value for name, value in os.environ.items() if name != "RAPT_HOME"}
    known |= {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.Popen([sys.executable, "-c", STAGE], cwd=root, env=known, text=True, **pipes)


def test_no_stage_of_dvc_repro_runs_beside_a_flow_nor_a_flow_beside_a_stage(tmp_path: Path) -> None:
    slot = tmp_path / ".rapt/slots/0"
    slot.mkdir(parents=True)
    with slots.only_one(tmp_path):
        refused, ours = stage(tmp_path), stage(slot, RAPT_HOME=str(tmp_path))
        out, error = refused.communicate()
        assert (refused.returncode, out) == (2, "")
        assert error == (
            f".rapt/flow.lock: got a flow that runs in this workspace (pid {os.getpid()}), "
            "expected none beside dvc repro: both would work on the same cells. Wait for it, or "
            "stop it by Ctrl-C.\n"
        )
        assert ours.communicate("\n") == ("at work\n", "")
    at_work = stage(tmp_path)
    assert at_work.stdout and at_work.stdout.readline() == "at work\n"
    with (
        pytest.raises(RaptError, match="got a stage that dvc repro runs"),
        slots.only_one(tmp_path),
    ):
        pass
    at_work.kill()  # the kernel releases its share
    at_work.communicate()
    with slots.only_one(tmp_path):
        pass


def lease(name: str, gpu: str | None) -> Lease:
    return Lease(Stage(name, ()), gpu)
