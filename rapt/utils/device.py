"""The device that models compute on: one rule for the library."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rapt.utils.errors import RaptError, described, one_of

if TYPE_CHECKING:
    import torch

# What hides GPUs from a process if it is set: of NVIDIA's, and of AMD's (ROCm).
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# The files of NVIDIA's driver, of AMD's, and of a Windows host's under WSL2.
NODES, WSL_NODE, WSL_DRIVER = ("nvidia[0-9]*", "kfd"), "dxg", "libcuda.so*"
DEVICES, WSL = Path("/dev"), Path("/usr/lib/wsl")


def device() -> torch.device:
    """Return RAPT_DEVICE if it is set, else CUDA, else Apple's MPS, else the CPU.

    RAPT_DEVICE may name one of several GPUs, such as `cuda:1`. AMD's are `cuda` as well.

    Raises:
        RaptError: RAPT_DEVICE is no device of this machine.
    """
    import torch

    names = usable()
    wanted = os.environ.get("RAPT_DEVICE") or names[0]
    if wanted not in names:
        why = f" PyTorch says: {_no_cuda()}" if wanted == "cuda" else ""
        raise RaptError(f"RAPT_DEVICE: got {wanted!r}, expected {one_of(names)}.{why}")
    where = torch.device(wanted)
    if where.type == "cuda" and where.index is not None:
        torch.cuda.set_device(where)  # for libraries that compute on the current one
    return where


def usable() -> list[str]:
    """Return the names of this machine's devices, the default first."""
    import torch

    cards = torch.cuda.is_available()
    found = ["cuda", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))] if cards else []
    return found + ["mps"] * torch.backends.mps.is_available() + ["cpu"]


def _no_cuda() -> str:
    """Return PyTorch's reason, such as a driver that is too old, in one line."""
    import torch

    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:  # of a build without CUDA; of the driver
        return described(error)
    return "nothing"


def device_name() -> str:
    """Return the name of the device: the model of a CUDA GPU, `mps` or `cpu`."""
    import torch

    where = device()
    return torch.cuda.get_device_name(where) if where.type == "cuda" else where.type


def out_of_memory(error: RuntimeError) -> bool:
    """Whether an error means that a GPU, cuBLAS or the machine is out of memory."""
    import torch

    # torch has a class for CUDA only.
    said = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "MPS backend out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(part in str(error) for part in said)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn the error of a GPU that is out of memory into a one-line error.

    Raises:
        RaptError: a GPU is out of memory.
    """
    try:
        yield
    except RuntimeError as error:
        if "torch" not in sys.modules or not out_of_memory(error):
            raise
        raise RaptError(
            "RAPT_DEVICE: got a device out of memory, expected room on it. End what else computes "
            "there, or set RAPT_DEVICE=cpu."
        ) from None


def is_apple() -> bool:
    """Whether the machine has a GPU of Apple's, which CUDA_VISIBLE_DEVICES does not hide."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def has_gpu() -> bool:
    """Whether `device` is a GPU, without importing torch, which takes seconds."""
    if wanted := os.environ.get("RAPT_DEVICE"):
        return wanted != "cpu"
    if is_apple():
        return True
    if any(os.environ.get(name) in ("", "-1") for name in VISIBLE):
        return False
    # WSL2 has its node without a GPU, too.
    on_windows = (DEVICES / WSL_NODE).exists() and any(WSL.rglob(WSL_DRIVER))
    return on_windows or any(any(DEVICES.glob(node)) for node in NODES)
