"""The loop of training: steps, losses and checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from math import isfinite

import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import get_scheduler

from rapt.tuning import cards, probe
from rapt.tuning.checkpoints import (
    Checkpoint,
    Position,
    Saved,
    generators,
    resume,
    set_generators,
    state_of,
)
from rapt.tuning.config import Run
from rapt.tuning.denoising import WordSampler
from rapt.tuning.gradients import GradientStep, finest
from rapt.tuning.inputs import Batch, Split, collate, pooled_plain
from rapt.tuning.model import ReconstructionHead, TaskModel, placed
from rapt.tuning.scoring import features, read_all
from rapt.tuning.strategies import Strategy
from rapt.utils.device import device, out_of_memory
from rapt.utils.errors import RaptError
from rapt.utils.progress import counter

# Of a batch on a CPU at a time: where memory lacks, the system kills the process without an error.
TOKENS = 2048
CURVES = ("task_loss", "reconstruction_loss", "reconstruction_accuracy")
# Steps whose losses are read together, as the host waits for a GPU to read them.
TOGETHER = {"cpu": 1, "mps": 16, "cuda": 16}


class Trainer:
    """A model and its heads in training."""

    def __init__(
        self, run: Run, model: TaskModel, pad: int, sampler: WordSampler | None = None
    ) -> None:
        """Take an adapted backbone with its task head."""
        self.run, self.pad, self.device, self.steps = run, pad, device(), 0
        self.model = placed(model)
        self.parts = torch.nn.ModuleDict({"model": self.model})
        self.head: ReconstructionHead | None = None
        self.targets: Tensor | csr_array = torch.empty(0, 0, dtype=torch.long)
        self.sampler = sampler
        self.micro_batch = run.train.batch_size
        self.finest = finest(self.device)
        self.gradient: Strategy = run.gradient
        self._unread: list[tuple[Tensor, int]] = []

    def reconstruct(self, targets: Tensor | csr_array, vocabulary: int) -> None:
        """Add the task of predicting words.

        Args:
            targets: plain tokens as indices into V_r, int64 (sequences, length). Or the posterior
                of each denoised word, float64 (R, V).
            vocabulary: the size of V_r, or V.
        """
        assert self.run.reconstruction
        size = self.run.reconstruction.head_size
        self.head = ReconstructionHead(self.model.width, size, vocabulary)
        self.parts["head"] = self.head.to(self.device)
        self.targets = targets.to(self.device) if isinstance(targets, Tensor) else targets

    def fit(self, split: Split, checkpoint: Checkpoint) -> dict[str, list[float]]:
        """Train as the run says; see `Tuner.fit`."""
        return (self.run.fitting or self.run.tuner).fit(self, split, checkpoint)

    def statement(self) -> dict[str, float]:
        """Return what the training promises about its texts (`CellResult.training`)."""
        return (self.run.fitting or self.gradient).statement()

    def take_steps(self, split: Split, checkpoint: Saved) -> dict[str, list[float]]:
        """Train by AdamW, from the checkpoint on if there is one.

        Returns:
            each curve's mean over the texts, for every epoch.
        """
        loop = self.run.train
        self.steps = loop.epochs * -(-len(split) // loop.batch_size)
        self.optimizer = torch.optim.AdamW(
            list(self.learning().values()),
            lr=self.run.learning_rate,
            weight_decay=loop.weight_decay,
            fused=self.device.type == "cuda" or None,  # None: AdamW's own choice
        )
        name = "linear" if loop.schedule == "linear" else "constant_with_warmup"
        warmup = int(loop.warmup * self.steps)
        self.schedule = get_scheduler(name, self.optimizer, warmup, self.steps)
        self.gradient = self.run.gradient.prepared(self, len(split), split.authors)
        order = torch.Generator().manual_seed(torch.initial_seed())
        names = CURVES if self.head else CURVES[:1]
        start = Position(dict.fromkeys(names, 0.0), {name: [] for name in names})
        at = self._resumed(checkpoint, order) or start
        self.model.train()
        with counter(f"seed {self.run.k}", self.steps, "step", line=self.run.k) as progress:
            progress.update(at.step)
            while at.epoch < loop.epochs:
                epoch_begins = order.get_state()
                batches = self.gradient.batches(split.lengths, loop.batch_size, order)
                for rows in islice(batches, at.batch, None):
                    cards.begin_step(self.run, at.step)
                    losses = self._step(*self._drawn(split, rows), at.step)
                    self._unread.append((losses, len(rows)))
                    at.step, at.batch = at.step + 1, at.batch + 1
                    progress.update()
                    due = checkpoint.due()
                    if due or len(self._unread) == TOGETHER[self.device.type]:
                        self._read(at)
                    if due:
                        self._save(checkpoint, at, epoch_begins)
                self._read(at)
                at.end_epoch()
                self._save(checkpoint, at, order.get_state())
        return at.curves

    def fit_head(self, split: Split, strength: float, checkpoint: Checkpoint) -> None:
        """Fit the task's head to the frozen backbone's activations, by logistic regression.

        Args:
            split: texts to fit it to.
            strength: 1 / the penalty on squared weights.
            checkpoint: of a head that was fitted before.
        """
        head, self.steps = self.model.head, 1
        if saved := checkpoint.load():
            head.load_state_dict(saved[0])
            return
        drawn = self.sampler(split) if self.sampler else split
        try:
            read = features(self.model, drawn, self.pad, self.run.train.batch_size)
        except RaptError as error:
            raise self.failed(1, f"reading: {error}") from None
        if not torch.isfinite(read).all():
            raise self.failed(
                1,
                "got an activation that is not a number, expected finite ones. Take precision "
                "float32.",
            )
        assert isinstance(head, torch.nn.Linear)
        probe.fit(head, read, torch.tensor(split.labels), strength)
        checkpoint.save(head.state_dict(), {"at": {"step": 1}})

    def _drawn(self, split: Split, rows: Sequence[int]) -> tuple[Split, Sequence[int]]:
        """Return a split and the rows in it of these texts, with words drawn anew if they are."""
        if self.sampler is None:
            return split, rows
        return self.sampler(split.of(rows)), range(len(rows))

    def learning(self) -> dict[str, torch.nn.Parameter]:
        """Return the trained weights by name."""
        return {name: w for name, w in self.parts.named_parameters() if w.requires_grad}

    def _read(self, at: Position) -> None:
        """Add the losses of the steps that were not read yet to the epoch's."""
        if not self._unread:
            return
        losses, texts = zip(*self._unread, strict=True)
        first = at.step - len(losses) + 1
        self._unread.clear()
        means = torch.stack(losses).tolist()
        for step, (own, count) in enumerate(zip(means, texts, strict=True), first):
            if not all(map(isfinite, own)):
                raise self.failed(
                    step,
                    "got a loss that is not a number, expected a finite one. Lower learning_rate "
                    f"({self.run.learning_rate}).",
                )
            at.add(dict(zip(at.sums, own, strict=True)), count)

    def _save(self, checkpoint: Saved, at: Position, order: Tensor) -> None:
        """Save the state on which the next step depends."""
        tensors, facts = state_of(self.learning(), self.optimizer, self.schedule, self.device)
        tensors |= {"rng.order": order} | self.gradient.state()
        checkpoint.save(tensors, facts | {"at": asdict(at), "micro_batch": self.micro_batch})

    def _resumed(self, checkpoint: Saved, order: torch.Generator) -> Position | None:
        """Restore the state of a checkpoint, if there is one."""
        if (saved := checkpoint.load()) is None:
            return None
        tensors, facts = saved
        resume(saved, self.learning(), self.optimizer, self.schedule, self.device)
        self.gradient.resume(tensors)
        self.micro_batch = facts["micro_batch"]
        order.set_state(tensors["rng.order"])
        return Position(**facts["at"])

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        """Compute the task's mean loss, and the reconstruction's loss and accuracy, if any."""
        activations = self.model.activations(batch)
        losses = {"task_loss": self.model.loss(activations, batch)}
        if self.head and self.run.reconstruction:
            targets, logits = self._reconstructed(activations, batch)
            total = cross_entropy(logits, targets, reduction="sum")
            mean = self.run.reconstruction.reduction == "mean"
            losses["reconstruction_loss"] = total / (
                max(1, len(logits)) if mean else len(batch.labels)
            )
            likeliest = targets if targets.ndim == 1 else targets.argmax(-1)
            right = (logits.argmax(-1) == likeliest).to(self.finest)
            losses["reconstruction_accuracy"] = right.sum() / max(1, len(right))
        return losses

    def _step(self, split: Split, rows: Sequence[int], step: int) -> Tensor:
        """Take one step of the optimizer, in as many parts as memory requires.

        Returns:
            the losses, as means over the texts, on the device.
        """
        begins = generators(self.device)
        while True:
            try:
                gradient, losses = self._backward(split, rows)
                break
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                if self.run.beside:
                    raise self.failed(
                        step + 1,
                        "got a device out of memory beside other seeds, expected room for all. "
                        "Set RAPT_WORKERS=1.",
                    ) from None
                self.micro_batch = min(self.micro_batch, len(rows)) // 2
                if not self.micro_batch:
                    raise self.failed(
                        step + 1,
                        "got a device out of memory at one text, expected room for it. Lower "
                        "max_tokens, or set RAPT_WORKERS=1.",
                    ) from None
            torch.cuda.empty_cache()  # once the failed parts' tensors are gone with the exception
            set_generators(self.device, begins)
        line = self.failed(
            step + 1,
            "got a device out of memory for the optimizer's state, expected room for it. Tune "
            "fewer weights (lora).",
        )
        with memory_lacks(line):
            losses = self._summed(gradient, losses)
            gradient.end()
            self.optimizer.step()
        self.schedule.step()
        return losses

    def _at_a_time(self, split: Split, rows: Sequence[int]) -> int:
        """Return how many of these texts fit into memory side by side, as far as is known."""
        most = min(self.micro_batch, self.gradient.at_a_time or self.micro_batch)
        if self.device.type != "cpu":
            return most
        longest = max(split.lengths[row] for row in rows)
        return max(1, min(most, TOKENS // longest))

    def _backward(self, split: Split, rows: Sequence[int]) -> tuple[GradientStep, Tensor]:
        """Compute the gradient of a batch's mean loss in parts, whose size does not change it.

        Of several cards each computes its share of the batch.

        Returns:
            the gradient, which is to be summed and ended, and the losses.
        """
        self.optimizer.zero_grad()
        names = CURVES if self.head else CURVES[:1]
        sums = torch.zeros(len(names), dtype=self.finest, device=self.device)
        auxiliary = self.run.reconstruction if self.head else None
        gradient = self.gradient.step(self.learning().values())
        here = rows[cards.rank() :: cards.count()]  # none of a batch with fewer texts than cards
        size = self._at_a_time(split, here) if here else 1
        for part in self.gradient.parts(here, size):
            losses = self._losses(collate(split, part, self.pad).to(self.device))
            task, share = losses["task_loss"], len(part) / len(rows)
            other = auxiliary.weight * losses["reconstruction_loss"] if auxiliary else None
            gradient.texts = len(part)
            gradient.add(task, other, share)
            every = torch.stack([loss.detach().to(self.finest) for loss in losses.values()])
            sums = sums + share * every
        return gradient, sums

    def _summed(self, gradient: GradientStep, losses: Tensor) -> Tensor:
        """Sum the gradient and the losses over the cards of the seed; return the losses."""
        if cards.count() == 1:
            return losses
        parts = gradient.held()
        like = gradient.weights * (len(parts) // len(gradient.weights))
        *sums, every = cards.total([*parts, losses], [*like, losses])
        gradient.hold(sums)
        assert every is not None
        return every

    def reconstructs(self, split: Split, tuned: Collection[int]) -> dict[str, float]:
        """Score the reconstruction of sequences of plain tokens that were not tuned on, if any.

        Their words may stand in others that were; those that do not are scored apart.

        Args:
            split: texts that were not tuned on.
            tuned: the sequences that were.
        """
        rows = [row for row, sequence in enumerate(split.sequences) if sequence not in tuned]
        if not (self.head and rows and isinstance(self.targets, Tensor)):
            return {}
        known = self.targets[sorted(tuned)].unique()

        def counted(activations: Tensor, batch: Batch) -> Tensor:
            """Count each text's plain words, the right ones, and the same of unknown words."""
            targets, logits = self._reconstructed(activations, batch)
            is_right, is_new = logits.argmax(-1) == targets, ~torch.isin(targets, known)
            counts = torch.stack([torch.ones_like(is_new), is_right, is_new, is_new & is_right], -1)
            return counts.reshape(len(batch.labels), -1, 4).sum(1)

        size = self.run.train.batch_size
        counts = read_all(self.model, split.of(rows), self.pad, size, counted).double().sum(0)
        words, right, new, new_right = counts.tolist()
        scores = {"reconstruction_unseen": right / words}
        return scores | ({"reconstruction_unseen_words": new_right / new} if new else {})

    def _reconstructed(self, activations: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the targets of n words, (n,) or (n, vocabulary), and the head's logits of them."""
        assert self.head
        if isinstance(self.targets, Tensor):
            plain = self.targets[batch.sequences]
            words = pooled_plain(self.model.own(activations), batch.plain, plain.shape[1])
            return plain.flatten(), self.head(words).flatten(0, 1)
        denoised = batch.tokens < 0
        posterior = self.targets[(-1 - batch.tokens[denoised]).cpu().numpy()].toarray()
        logits = self.head(activations[denoised])
        return torch.from_numpy(posterior).to(logits), logits

    def failed(self, step: int, why: str) -> RaptError:
        """Return the error of a run that fails at a step, counted from 1."""
        run = self.run
        return RaptError(f"{run.cell}, seed {run.k}, step {step} of {self.steps}: {why}")


@contextmanager
def memory_lacks(line: RaptError) -> Iterator[None]:
    """Raise a one-line error where memory does not suffice."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise line from None
