"""The device that models compute on: one rule for the library."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rapt.utils.errors import RaptError, one_of

if TYPE_CHECKING:
    import torch

GPUS = ("cuda", "mps")


def device() -> torch.device:
    """Return RAPT_DEVICE if it is set, else CUDA, else Apple's MPS, else the CPU.

    CUDA_VISIBLE_DEVICES says which of several GPUs count.

    Raises:
        RaptError: RAPT_DEVICE is no device of this machine.
    """
    import torch

    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    usable = [name for name in GPUS if found[name]] + ["cpu"]
    wanted = os.environ.get("RAPT_DEVICE") or usable[0]
    if wanted not in usable:
        raise RaptError(f"RAPT_DEVICE: got {wanted!r}, expected {one_of(usable)}.")
    return torch.device(wanted)


def device_name() -> str:
    """Return the name of the device: the model of a CUDA GPU, `mps` or `cpu`."""
    import torch

    where = device().type
    return torch.cuda.get_device_name() if where == "cuda" else where


def out_of_memory(error: RuntimeError) -> bool:
    """Whether an error means that a GPU, cuBLAS or the machine is out of memory."""
    import torch

    # torch has a class for CUDA only.
    said = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "MPS backend out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(part in str(error) for part in said)


def is_apple() -> bool:
    """Whether the machine has a GPU of Apple's, which CUDA_VISIBLE_DEVICES does not hide."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def has_gpu() -> bool:
    """Whether `device` is a GPU, without importing torch, which takes seconds."""
    if wanted := os.environ.get("RAPT_DEVICE"):
        return wanted in GPUS
    if is_apple():
        return True
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    return not hidden and any(Path("/dev").glob("nvidia[0-9]*"))
