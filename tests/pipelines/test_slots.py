"""What a slot's processes are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import slots


def driver(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in for nvidia-smi on the path, and nothing else."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_gpus_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    driver(tmp_path, "echo GPU-a; echo GPU-b", monkeypatch)
    assert slots.gpus() == ["GPU-a", "GPU-b"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 3")
    assert slots.gpus() == ["1", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert slots.gpus() == []


def test_no_gpus_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    driver(tmp_path, "echo NVIDIA-SMI has failed; exit 9", monkeypatch)
    assert slots.gpus() == []
    (tmp_path / "nvidia-smi").unlink()
    assert slots.gpus() == []


def test_a_slot_gets_its_share_and_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots.process, "cores", lambda: 5)
    monkeypatch.setattr(slots, "gpus", lambda: ["0", "1"])
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    slot = slots._environment(Path("main"), Path("slot"), number=2, count=2)
    assert slot == {
        "RAPT_HOME": "main",
        "RAPT_WORKERS": "2",
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": "slot:elsewhere",
        "CUDA_VISIBLE_DEVICES": "0",
    }
