"""The one rule by which a device is chosen."""

from __future__ import annotations

import platform
import sys

import pytest
import torch

from pipelines.slots import gpus
from rapt.utils.device import device, device_name, has_gpu
from rapt.utils.errors import RaptError


@pytest.fixture
def usable(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which every device is usable, and none is chosen."""
    monkeypatch.delenv("RAPT_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    return monkeypatch


def test_cuda_comes_before_mps_and_mps_before_the_cpu(usable: pytest.MonkeyPatch) -> None:
    assert device().type == "cuda"
    usable.setattr(torch.cuda, "is_available", lambda: False)
    assert device().type == device_name() == "mps"
    usable.setattr(torch.backends.mps, "is_available", lambda: False)
    assert device().type == device_name() == "cpu"
    usable.setenv("RAPT_DEVICE", "")  # as if it were not set
    assert device().type == "cpu"


@pytest.mark.parametrize("wanted", ["cpu", "mps", "cuda"])
def test_the_environment_decides(usable: pytest.MonkeyPatch, wanted: str) -> None:
    usable.setenv("RAPT_DEVICE", wanted)
    assert device().type == wanted
    assert has_gpu() == (wanted != "cpu")


def test_a_gpu_that_is_hidden_is_none(usable: pytest.MonkeyPatch) -> None:
    usable.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not has_gpu()


@pytest.mark.parametrize(("machine", "has"), [("arm64", True), ("x86_64", False)])
def test_apples_gpu_is_known_without_torch(
    usable: pytest.MonkeyPatch, machine: str, has: bool
) -> None:
    usable.setattr(sys, "platform", "darwin")
    usable.setattr(platform, "machine", lambda: machine)
    usable.setenv("CUDA_VISIBLE_DEVICES", "")  # as a flow sets it
    assert has_gpu() == has
    assert gpus() == (["mps"] if has else [])
    usable.setenv("RAPT_DEVICE", "cpu")
    assert gpus() == []


def test_a_device_that_is_not_here_is_one_line(usable: pytest.MonkeyPatch) -> None:
    usable.setenv("RAPT_DEVICE", "cude")
    line = r"^RAPT_DEVICE: got 'cude', expected one of cpu, cuda, mps\.$"
    with pytest.raises(RaptError, match=line):
        device()
    for module in (torch.cuda, torch.backends.mps):
        usable.setattr(module, "is_available", lambda: False)
    usable.setenv("RAPT_DEVICE", "cuda")
    with pytest.raises(RaptError, match=r"^RAPT_DEVICE: got 'cuda', expected cpu\.$"):
        device()
