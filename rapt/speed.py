"""The speed of this machine: a probe of about ten seconds, kept in .rapt/speed.json.

    python -m rapt.speed 384

It measures the CPU time of one thread, which other programs hardly affect; on a GPU wall time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time

from rapt.paths import STATE
from rapt.results.cells import machine
from rapt.utils import files
from rapt.utils.device import has_gpu
from rapt.utils.errors import RaptError
from rapt.utils.process import cores

# Wider networks are no faster on a CPU, and take longer to measure.
WIDEST = 1024
TEXTS, TOKENS = 16, 24
SECONDS = 1.5


@dataclass(frozen=True)
class Speed:
    """The speed of one core of this machine.

    Attributes:
        machine: description of the machine.
        start: seconds until a process has imported the libraries for tuning.
        product: flops a second of a matrix product.
        training: flops a second of LoRA steps, by the width of the network; on the GPU if any.
    """

    machine: str
    start: float
    product: float
    training: dict[str, float]

    def of(self, width: float) -> float:
        """Return the training speed at the nearest measured width."""
        return self.training[min(self.training, key=lambda known: abs(int(known) - width))]


def known() -> Speed | None:
    """Load earlier measurements of this machine; None if there are none."""
    path = _path()
    speed = Speed(**files.read_json(path)) if path.is_file() else None
    return speed if speed and speed.machine == _machine() else None


def measured(width: float) -> Speed:
    """Load earlier measurements of this machine; measure `width` now if it is missing.

    Raises:
        RaptError: the probe failed.
    """
    speed, width = known(), int(min(width, WIDEST))
    if speed and str(width) in speed.training:
        return speed
    done = subprocess.run(
        [sys.executable, "-m", "rapt.speed", str(width)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RaptError(f"python -m rapt.speed {width}: got {why!r}, expected its measurements.")
    start, product, training = map(float, done.stdout.split())
    others = speed.training if speed else {}
    speed = Speed(_machine(), start, product, others | {str(width): training})
    files.write_json(_path(), asdict(speed))
    return speed


def _path() -> Path:
    return files.home() / STATE / "speed.json"


def _machine() -> str:
    return f"{machine()}, {cores()} cores{', GPU' if has_gpu() else ''}"


def probe(width: int) -> tuple[float, float, float]:
    """Measure seconds to start, and flops a second of a product and of training."""
    import torch
    from transformers import BertConfig, BertModel

    from rapt.costs import counted
    from rapt.tuning.config import Lora
    from rapt.tuning.model import adapt
    from rapt.utils.device import device

    start = process_time()
    vocabulary, layers, width = 1000, 2, max(32, width // 32 * 32)
    queries, table = torch.randn(256, width), torch.randn(width, 8192)
    product = 2 * queries.numel() * table.shape[1] / _seconds(lambda: queries @ table, process_time)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        intermediate_size=4 * width,
    )
    backbone = BertModel(config, add_pooling_layer=False)
    model: torch.nn.Module = adapt(backbone, Lora())
    model.to(device()).train()
    optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad])
    tokens = torch.randint(vocabulary, (TEXTS, TOKENS), device=device())

    def step() -> float:
        optimizer.zero_grad()
        loss = model(input_ids=tokens).last_hidden_state.square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()  # waits for the GPU

    clock = process_time if device().type == "cpu" else perf_counter
    flops = tokens.numel() * counted(model).flops_per_token
    return start, product, flops / _seconds(step, clock)


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Measure the mean time of one call, after a warm-up call."""
    work()
    begin, times = clock(), 0
    while clock() - begin < SECONDS:
        work()
        times += 1
    return (clock() - begin) / times


if __name__ == "__main__":
    print(*probe(int(sys.argv[1])))
