"""Checkpoints of interrupted runs, written atomically and valid only for the same run."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from rapt import paths
from rapt.tuning import cards
from rapt.tuning.config import Run
from rapt.utils import files
from rapt.utils.errors import RaptError, described

ROOMS = ("federated", "kinds", "tuning")  # whose code trains
SECONDS = 600  # between checkpoints within an epoch; there is one at the end of each, too
DAMAGED = (SafetensorError, OSError, KeyError, TypeError, ValueError)  # of a file that is
Weights = Mapping[str, torch.nn.Parameter]  # that learn, by name
Kept = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and facts that are JSON-serializable


@dataclass
class Position:
    """Steps and epochs done, of the current epoch its steps and texts, and each curve's values."""

    sums: dict[str, float]
    curves: dict[str, list[float]]
    step: int = 0
    epoch: int = 0
    batch: int = 0
    texts: int = 0

    def add(self, means: dict[str, float], texts: int) -> None:
        """Add a step's means over `texts` to the current epoch's sums."""
        for name, value in means.items():
            self.sums[name] += value * texts
        self.texts += texts

    def end_epoch(self) -> None:
        """Append the mean over the epoch's texts to each curve."""
        for name, total in self.sums.items():
            self.curves[name].append(total / max(1, self.texts))
        self.epoch, self.batch, self.texts = self.epoch + 1, 0, 0
        self.sums = dict.fromkeys(self.sums, 0.0)


class Saved:
    """The state of a training, in .rapt/checkpoints of the main workspace.

    DVC removes nothing there. Its name is a hash of all of the training's inputs, including the
    code, so no other one finds it. Of several processes that train together the first writes it.
    """

    def __init__(self, inputs: Mapping[str, Any], name: str) -> None:
        """Determine the path by inputs that are JSON-serializable; `name` stands in errors."""
        rapt = Path(__file__).parents[1]
        code = [path for room in ROOMS for path in sorted((rapt / room).glob("*.py"))]
        packages = ("torch", "transformers", "tokenizers", "peft")
        every = {
            **inputs,
            "code": [files.sha256(path) for path in code],
            "versions": [version(package) for package in packages],
        }
        identity = hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()[:32]
        self.path = files.home() / paths.STATE / "checkpoints" / f"{identity}.safetensors"
        self._name, self._saved = name, time.monotonic()

    def due(self) -> bool:
        """Whether the last checkpoint is old enough for a new one."""
        return cards.rank() == 0 and time.monotonic() - self._saved >= SECONDS

    def step(self) -> str | None:
        """Return the step of the checkpoint, as `step 120`; None: there is no checkpoint."""
        return _step(self.path) if self.path.exists() else None

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write tensors and JSON-serializable facts, replacing the last checkpoint."""
        if cards.rank():
            return
        files.remove_scratch(self.path)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        with files.atomic(self.path) as scratch:
            save_file(tensors, scratch, {"facts": json.dumps(facts)})
        self._saved = time.monotonic()

    def load(self) -> Kept | None:
        """Load the checkpoint's tensors and facts; None: there is no checkpoint.

        Raises:
            RaptError: the file is damaged.
        """
        if not self.path.exists():
            return None
        try:
            return read(self.path)
        except DAMAGED as error:
            raise RaptError(
                f"{self._name}: got a damaged checkpoint of {self.step()} "
                f"({described(error)}), expected a whole one. Remove it to train from the "
                f"first step: {self.path}"
            ) from None


class Checkpoint(Saved):
    """A run's checkpoint."""

    def __init__(self, run: Run, device: str, **more: str) -> None:
        """Determine its path, on the device of this name, by `more` that it reads."""
        super().__init__(_inputs(run, device) | more, f"{run.cell}, seed {run.k}")


class NoCheckpoint(Checkpoint):
    """That of a training which takes seconds: nothing is written."""

    def __init__(self) -> None:
        """Have no path."""

    def due(self) -> bool:
        """Return that none is needed."""
        return False

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write nothing."""

    def load(self) -> None:
        """Return that there is none."""


def read(path: Path) -> Kept:
    """Read what `Saved.save` or a federated server wrote; one of DAMAGED: the file is damaged."""
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(file.metadata()["facts"])


def _step(damaged: Path) -> str:
    """Return the step of a checkpoint that may be damaged, if its header is readable."""
    with damaged.open("rb") as file, suppress(ValueError, KeyError, MemoryError, OverflowError):
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return f"step {json.loads(header['__metadata__']['facts'])['at']['step']}"
    return "an unknown step"


# Cached for all seeds of a cell, as a large backbone takes a minute to read.
_digest = cache(files.sha256)


def _inputs(run: Run, device: str) -> dict[str, Any]:
    return {
        "release": files.sha256(paths.seed(run.release, run.k)),
        "statement": files.sha256(paths.statement(run.release)),
        "backbone": _digest(run.backbone),
        "encoder": run.encoder and run.encoder.model_dump(),
        "tuner": run.tuner.model_dump(),
        "reconstruction": run.reconstruction and run.reconstruction.model_dump(),
        "denoising": _denoising(run),
        "train": run.train.model_dump(),
        "decoding": run.decoding.model_dump(),
        "seeds": [run.seed, run.k],
        "device": device,
        "cards": run.cards,
    }


def _denoising(run: Run) -> list[str] | None:
    if (how := run.denoising) is None:
        return None
    matrix = how.posterior
    parts = (matrix.indptr, matrix.indices, matrix.data)
    words = json.dumps([how.released, how.words])
    return [how.type, words, *(hashlib.sha256(part.tobytes()).hexdigest() for part in parts)]


def generators(device: torch.device) -> dict[str, Tensor]:
    """Return the state of each generator that a step draws from: of the CPU, and of every GPU."""
    states = {"rng.torch": torch.get_rng_state()}
    if device.type == "cpu":
        return states
    module = torch.get_device_module(device)
    each = module.get_rng_state_all() if device.type == "cuda" else [module.get_rng_state()]
    return states | {f"rng.device.{number}": state for number, state in enumerate(each)}


def set_generators(device: torch.device, states: Mapping[str, Tensor]) -> None:
    """Set the generators to what `generators` returned."""
    torch.set_rng_state(states["rng.torch"])
    if device.type == "cuda":
        count = torch.cuda.device_count()
        torch.cuda.set_rng_state_all([states[f"rng.device.{number}"] for number in range(count)])
    elif device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states["rng.device.0"])


def give(learning: Weights, values: Mapping[str, Tensor], prefix: str = "") -> None:
    """Give weights the values of their names behind a prefix."""
    with torch.no_grad():
        for name, weight in learning.items():
            weight.copy_(values[f"{prefix}{name}"])


def state_of(
    learning: Weights, optimizer: torch.optim.Optimizer, schedule: Any, device: torch.device
) -> Kept:
    """Return what the next step of a training depends on."""
    state = optimizer.state_dict()
    tensors = {
        f"optimizer.{weight}.{name}": value
        for weight, values in state["state"].items()
        for name, value in values.items()
    }
    tensors |= {f"weight.{name}": weight for name, weight in learning.items()} | generators(device)
    return tensors, {"groups": state["param_groups"], "schedule": schedule.state_dict()}


def resume(
    kept: Kept,
    learning: Weights,
    optimizer: torch.optim.Optimizer,
    schedule: Any,
    device: torch.device,
) -> None:
    """Go on from what `state_of` returned."""
    tensors, facts = kept
    give(learning, tensors, "weight.")
    state: dict[int, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        if path.startswith("optimizer."):
            _, weight, name = path.split(".")
            state.setdefault(int(weight), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": facts["groups"]})
    schedule.load_state_dict(facts["schedule"])
    set_generators(device, tensors)
