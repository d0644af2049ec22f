"""Steps of private training beside plain ones, and beside Opacus' own optimizer; one thread.

The memory is the most that a process has which takes steps of one sort alone.

LoRA on a random BERT of MiniLM's shape, texts as long as SST-2's sentences, equal batches. Opacus
clips what the same hooks kept, with its own optimizer. Full tuning by ghost clipping is beside its
plain steps, and beside gradients of single texts one by one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.measure import Figure, figure, interleaved, memory, ratio
from benchmarks.training import BATCH, LORA, ROUNDS, told
from rapt.tuning.config import Run
from rapt.tuning.inputs import Split, collate, read_split
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import Classifier, adapt, load_backbone
from rapt.tuning.private import PrivateGradients
from rapt.tuning.strategies import Gradient, Plain, Private
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Full, Tuner

STEPS, DELTA = 16, 1e-4
WHOLE_STEPS, WHOLE_ROUNDS = 2, 5  # of full tuning
PRIVATE, FULL = Private(epsilon=3, delta=DELTA), Full(learning_rate=1e-4)


def run(_: Path) -> list[Figure]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        ready = {sort: steps(Path(scratch)) for sort, steps in SORTS.items()}
        whole = {sort: ready.pop(sort) for sort in list(ready) if sort.startswith("full")}
        taken = interleaved(ready, ROUNDS) | interleaved(whole, WHOLE_ROUNDS)
    torch.set_num_threads(threads)
    most = {sort: _most_memory(sort) for sort in SORTS}
    each = float(np.median(taken["ours"])) / STEPS
    return [
        figure(
            "private LoRA step / plain", ratio(taken["ours"], taken["plain"]), "times", most=1.3
        ),
        figure("the same by Opacus", ratio(taken["opacus"], taken["plain"]), "times"),
        figure("Opacus / ours", ratio(taken["opacus"], taken["ours"]), "times", least=0.95),
        figure("private LoRA step, one thread", BATCH / each, "texts/s"),
        figure(
            "private full step / plain", ratio(taken["full, ghost"], taken["full, plain"]), "times"
        ),
        figure(
            "full, one by one / ghost",
            ratio(taken["full, one by one"], taken["full, ghost"]),
            "times",
            least=1.5,
        ),
        *(figure(f"peak memory, {sort}", most[sort], "MiB") for sort in SORTS),
    ]


def _most_memory(sort: str) -> float:
    command = [sys.executable, "-m", "benchmarks.private", sort]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def _made(scratch: Path, gradient: Gradient, tuner: Tuner = LORA) -> tuple[Trainer, Split]:
    of = replace(told(scratch), tuner=tuner)
    split = read_split(
        of.release / "seed-0/train.parquet", load_tokenizer(of.backbone), of.train.max_tokens
    )
    return _trainer(of, gradient, split), split


def _trainer(of: Run, gradient: Gradient, split: Split) -> Trainer:
    torch.manual_seed(0)
    train = of.train.model_copy(update={"gradient": gradient})
    backbone, tokenizer = load_backbone(of.backbone, None, of.frozen)
    model = Classifier(adapt(backbone, of.tuner), 2)
    trainer = Trainer(replace(of, train=train), model, tokenizer.pad_token_id)
    trainer.steps = STEPS
    trainer.gradient = trainer.run.gradient.prepared(trainer, len(split))
    weights = list(trainer.learning().values())
    trainer.optimizer = torch.optim.AdamW(weights, lr=of.learning_rate)
    trainer.model.train()
    return trainer


def _rows(step: int) -> list[int]:
    return list(range(step * BATCH, (step + 1) * BATCH))


def _steps(trainer: Trainer, split: Split, steps: int = STEPS) -> Callable[[], None]:
    def take() -> None:
        for step in range(steps):
            gradient, _ = trainer._backward(split, _rows(step))
            gradient.end()
            trainer.optimizer.step()

    return take


def _one_by_one(trainer: Trainer, split: Split) -> Callable[[], None]:
    strategy = trainer.gradient
    assert isinstance(strategy, PrivateGradients) and strategy.ghost
    strategy.ghost.remove()
    strategy.ghost, strategy.at_a_time = None, 1
    return _steps(trainer, split, WHOLE_STEPS)


def _by_opacus(trainer: Trainer, split: Split) -> Callable[[], None]:
    from opacus.grad_sample import GradSampleHooks
    from opacus.optimizers import DPOptimizer

    GradSampleHooks(trainer.parts, loss_reduction="mean", strict=False)
    optimizer = DPOptimizer(
        trainer.optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=BATCH
    )

    def take() -> None:
        for step in range(STEPS):
            optimizer.zero_grad()
            batch = collate(split, _rows(step), trainer.pad).to(trainer.device)
            trainer._losses(batch)["task_loss"].backward()
            optimizer.step()

    return take


SORTS: dict[str, Callable[[Path], Callable[[], None]]] = {
    "plain": lambda scratch: _steps(*_made(scratch, Plain())),
    "ours": lambda scratch: _steps(*_made(scratch, PRIVATE)),
    "full, plain": lambda scratch: _steps(*_made(scratch, Plain(), FULL), WHOLE_STEPS),
    "full, ghost": lambda scratch: _steps(*_made(scratch, PRIVATE, FULL), WHOLE_STEPS),
    "full, one by one": lambda scratch: _one_by_one(*_made(scratch, PRIVATE, FULL)),
    "opacus": lambda scratch: _by_opacus(*_made(scratch, Plain())),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        SORTS[sys.argv[1]](Path(folder))()
    print(memory("VmHWM"))
