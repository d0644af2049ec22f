"""The one rule by which a device is chosen."""

import platform
import sys
from pathlib import Path

import pytest
import torch

from pipelines.slots import gpus
from rapt.utils import device as devices
from rapt.utils.device import VISIBLE, device, device_name, has_gpu, memory_errors
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


def test_one_of_several_gpus_is_named_by_its_number(usable: pytest.MonkeyPatch) -> None:
    current: list[torch.device] = []
    usable.setattr(torch.cuda, "device_count", lambda: 2)
    usable.setattr(torch.cuda, "set_device", current.append)
    usable.setattr(torch.cuda, "get_device_name", lambda where: f"the card {where}")
    usable.setenv("RAPT_DEVICE", "cuda:1")
    assert device() == torch.device("cuda", 1)
    assert current == [torch.device("cuda", 1)]
    assert device_name() == "the card cuda:1"
    assert has_gpu()
    usable.setenv("RAPT_DEVICE", "cuda:2")
    line = r"^RAPT_DEVICE: got 'cuda:2', expected one of cpu, cuda, cuda:0, cuda:1, mps\.$"
    with pytest.raises(RaptError, match=line):
        device()


@pytest.mark.parametrize(
    ("files", "has"),
    [
        (["dev/null", "dev/nvidiactl"], False),
        (["dev/nvidia0"], True),
        (["dev/kfd"], True),  # AMD's
        (["dev/dxg"], False),  # WSL2 without a card of NVIDIA's
        (["dev/dxg", "wsl/lib/libcuda.so.1"], True),
        (["wsl/lib/libcuda.so.1"], False),
    ],
)
def test_a_gpu_is_known_by_its_driver_s_files_unless_it_is_hidden(
    usable: pytest.MonkeyPatch, tmp_path: Path, files: list[str], has: bool
) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    usable.setattr(devices, "DEVICES", tmp_path / "dev")
    usable.setattr(devices, "WSL", tmp_path / "wsl")
    usable.setattr(sys, "platform", "linux")
    for name in VISIBLE:
        usable.delenv(name, raising=False)
    assert has_gpu() == has
    for name in VISIBLE:
        for hidden in ("", "-1"):
            usable.setenv(name, hidden)
            assert not has_gpu()
        usable.setenv(name, "0")
        assert has_gpu() == has


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


def test_a_gpu_that_pytorch_cannot_use_is_one_line_with_the_reason(
    usable: pytest.MonkeyPatch,
) -> None:
    for module in (torch.cuda, torch.backends.mps):
        usable.setattr(module, "is_available", lambda: False)

    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old\n (found version 11020).")

    usable.setattr(torch.cuda, "init", init)
    usable.setenv("RAPT_DEVICE", "cuda")
    line = (
        r"^RAPT_DEVICE: got 'cuda', expected cpu\. PyTorch says: RuntimeError: The NVIDIA driver "
        r"on your system is too old \(found version 11020\)\.$"
    )
    with pytest.raises(RaptError, match=line):
        device()


def test_a_gpu_out_of_memory_is_one_line() -> None:
    line = r"^RAPT_DEVICE: got a device out of memory, expected room on it\. "
    with pytest.raises(RaptError, match=line), memory_errors():
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 9 GiB")
    with pytest.raises(RuntimeError, match="shapes"), memory_errors():
        raise RuntimeError("shapes")
