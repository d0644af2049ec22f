"""Steps of private training beside plain ones, and beside Opacus' own optimizer; one thread.

LoRA on a random BERT of MiniLM's shape, texts as long as SST-2's sentences, equal batches. Opacus
clips what the same hooks kept, with its own optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from opacus.grad_sample import GradSampleHooks
from opacus.optimizers import DPOptimizer

from benchmarks.measure import Figure, figure, interleaved, ratio
from benchmarks.training import BATCH, LORA, ROUNDS, told
from rapt.tuning.backbones import load_tokenizer
from rapt.tuning.config import Run
from rapt.tuning.inputs import Split, collate, read_split
from rapt.tuning.model import Classifier, adapt, load_backbone
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Gradient, Plain, Private

STEPS, DELTA = 16, 1e-4


def run(_: Path) -> list[Figure]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        of = told(Path(scratch))
        tokenizer = load_tokenizer(of.backbone)
        split = read_split(of.release / "seed-0/train.parquet", tokenizer, of.train.max_tokens)
        private = Private(epsilon=3, delta=DELTA)
        steps = {
            "plain": _steps(_trainer(of, Plain(), split), split),
            "ours": _steps(_trainer(of, private, split), split),
            "opacus": _by_opacus(_trainer(of, Plain(), split), split),
        }
        taken = interleaved(steps, ROUNDS)
    torch.set_num_threads(threads)
    each = float(np.median(taken["ours"])) / STEPS
    return [
        figure(
            "private LoRA step / plain", ratio(taken["ours"], taken["plain"]), "times", most=1.3
        ),
        figure("the same by Opacus", ratio(taken["opacus"], taken["plain"]), "times"),
        figure("Opacus / ours", ratio(taken["opacus"], taken["ours"]), "times", least=0.95),
        figure("private LoRA step, one thread", BATCH / each, "texts/s"),
    ]


def _trainer(of: Run, gradient: Gradient, split: Split) -> Trainer:
    torch.manual_seed(0)
    train = of.train.model_copy(update={"gradient": gradient})
    backbone, tokenizer = load_backbone(of.backbone, None, of.frozen)
    model = Classifier(adapt(backbone, LORA), 2)
    trainer = Trainer(replace(of, train=train), model, tokenizer.pad_token_id)
    trainer.steps = STEPS
    trainer.gradient = trainer.run.gradient.prepared(trainer, len(split))
    weights = list(trainer._learning().values())
    trainer.optimizer = torch.optim.AdamW(weights, lr=LORA.learning_rate)
    trainer.model.train()
    return trainer


def _rows(step: int) -> list[int]:
    return list(range(step * BATCH, (step + 1) * BATCH))


def _steps(trainer: Trainer, split: Split) -> Callable[[], None]:
    def take() -> None:
        for step in range(STEPS):
            gradient, _ = trainer._backward(split, _rows(step))
            gradient.end()
            trainer.optimizer.step()

    return take


def _by_opacus(trainer: Trainer, split: Split) -> Callable[[], None]:
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
