"""Training one seed: the task beside the reconstruction of plain tokens, on a release alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import get_linear_schedule_with_warmup

from rapt.errors import RaptError
from rapt.progress import bar
from rapt.tuning.config import Run
from rapt.tuning.inputs import Batch, Split, by_length, collate, read_split, shuffled
from rapt.tuning.model import Classifier, ReconstructionHead, adapt, device, load_backbone, save

CURVES = ("task_loss", "reconstruction_loss", "reconstruction_accuracy")


def train(run: Run) -> dict[str, Any]:
    """Tune on the release's training split, write the adapter, score on its test split.

    Returns:
        `seed`, `metrics` and `curves` as a cell's JSON holds them, and `device`.

    Raises:
        RaptError: the loss is not a number, or the texts are too long for the backbone.
    """
    # One thread: with more the sums, and so the weights, depend on how many there are.
    torch.set_num_threads(1)
    torch.manual_seed(run.seed * 1_000_003 + run.k)
    statement = json.loads((run.release / "statement.json").read_text())
    data = run.release / f"seed-{run.k}"
    backbone, tokenizer = load_backbone(run.backbone)
    splits = {
        s: read_split(data / f"{s}.parquet", tokenizer, run.loop.max_tokens)
        for s in ("train", "test")
    }
    _fits(splits, backbone.config)
    trainer = Trainer(
        run, adapt(backbone, run.tuner), len(statement["labels"]), tokenizer.pad_token_id
    )
    if run.reconstruction:
        targets = pq.read_table(data / "plain.parquet")["target"].to_numpy()
        trainer.reconstruct(torch.tensor(targets), statement["vocabulary"])
    curves = trainer.fit(splits["train"])
    save(trainer.model, run.adapter, run.backbone_name)
    predicted = predict(trainer.model, splits["test"], tokenizer.pad_token_id, run.loop.batch_size)
    correct = (predicted == torch.tensor(splits["test"].labels)).double().mean().item()
    return {
        "seed": run.k,
        "metrics": {"accuracy": correct},
        "curves": curves,
        "device": torch.cuda.get_device_name() if device().type == "cuda" else "cpu",
    }


def _fits(splits: dict[str, Split], config: Any) -> None:
    longest = max(len(tokens) for split in splits.values() for tokens in split.tokens)
    most = getattr(config, "max_position_embeddings", longest)
    if longest > most:
        raise RaptError(
            f"train.max_tokens: {longest} tokens with plain and special ones, allowed: {most}"
        )


class Trainer:
    """A model and its heads in training."""

    def __init__(self, run: Run, backbone: Any, classes: int, pad: int) -> None:
        """Put a fresh task head on the adapted backbone."""
        self.run, self.pad, self.device = run, pad, device()
        self.model = Classifier(backbone, classes).to(self.device)
        self.head: ReconstructionHead | None = None
        self.targets = torch.empty(0, dtype=torch.long)

    def reconstruct(self, targets: Tensor, vocabulary: int) -> None:
        """Add the second task: predict `targets`, the plain tokens' places in V_r."""
        assert self.run.reconstruction
        hidden = self.model.head.in_features
        self.head = ReconstructionHead(hidden, self.run.reconstruction.head_size, vocabulary)
        self.head.to(self.device)
        self.targets = targets.to(self.device)

    def fit(self, split: Split) -> dict[str, list[float]]:
        """Train; returns for each curve a mean over the texts of every epoch."""
        loop, rng = self.run.loop, torch.Generator().manual_seed(torch.initial_seed())
        steps = loop.epochs * -(-len(split) // loop.batch_size)
        optimizer, schedule = self._optimizer(steps)
        curves: dict[str, list[float]] = {
            name: [] for name in CURVES if self.head or name == "task_loss"
        }
        self.model.train()
        progress = iter(
            bar(self._batches(split, rng), f"seed {self.run.k}", steps, line=self.run.k)
        )
        for _ in range(loop.epochs):
            sums = dict.fromkeys(curves, 0.0)
            for _ in range(steps // loop.epochs):
                batch = next(progress)
                losses = self._losses(batch)
                self._step(losses, optimizer, schedule)
                for name, value in losses.items():
                    sums[name] += value.item() * len(batch.labels)
            for name, total in sums.items():
                curves[name].append(total / len(split))
        return curves

    def _batches(self, split: Split, rng: torch.Generator) -> Iterator[Batch]:
        for _ in range(self.run.loop.epochs):
            for rows in shuffled(split, self.run.loop.batch_size, rng):
                yield collate(split, rows, self.pad).to(self.device)

    def _optimizer(self, steps: int) -> tuple[torch.optim.Optimizer, Any]:
        modules = [self.model] + ([self.head] if self.head else [])
        weights = [w for module in modules for w in module.parameters() if w.requires_grad]
        loop = self.run.loop
        optimizer = torch.optim.AdamW(
            weights, lr=self.run.tuner.learning_rate, weight_decay=loop.weight_decay
        )
        return optimizer, get_linear_schedule_with_warmup(
            optimizer, int(loop.warmup * steps), steps
        )

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        """The task's mean loss; the reconstruction's, summed over plain tokens, mean over texts."""
        activations = self.model.activations(batch)
        losses = {"task_loss": cross_entropy(self.model.classify(activations, batch), batch.labels)}
        if self.head:
            logits = self.head(activations, batch.plain, len(self.targets))
            targets = self.targets.expand(len(batch.labels), -1)
            each = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            losses["reconstruction_loss"] = each / len(batch.labels)
            losses["reconstruction_accuracy"] = (logits.argmax(-1) == targets).double().mean()
        return losses

    def _step(
        self, losses: dict[str, Tensor], optimizer: torch.optim.Optimizer, schedule: Any
    ) -> None:
        loss = losses["task_loss"]
        if self.run.reconstruction:
            loss = loss + self.run.reconstruction.weight * losses["reconstruction_loss"]
        if not torch.isfinite(loss):
            raise RaptError(f"{self.run.release}: the loss is not a number, lower learning_rate")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


@torch.inference_mode()
def predict(model: Classifier, split: Split, pad: int, batch_size: int) -> Tensor:
    """The class of every text of a privatized split, int64 (n,) on the CPU."""
    model.eval()
    where = next(model.parameters()).device
    classes = torch.empty(len(split), dtype=torch.long)
    for rows in by_length(split, batch_size):
        batch = collate(split, rows, pad).to(where)
        logits = model.classify(model.activations(batch), batch)
        classes[rows] = logits.argmax(1).cpu()
    return classes
