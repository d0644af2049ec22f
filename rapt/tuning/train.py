"""Training of one seed on a release: the task, with the reconstruction of plain tokens."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from typing import Any

import torch
from peft import PeftModel
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    get_scheduler,
)

from rapt.param_types import Kind
from rapt.results.cells import SeedResult
from rapt.tuning import inference_spec, probe, self_test, writing
from rapt.tuning.backbones import check_vectors, most_tokens, sharing_weights, translates
from rapt.tuning.batches import shuffled
from rapt.tuning.capped import Capped
from rapt.tuning.checkpoints import Checkpoint, Position, flat, unflat
from rapt.tuning.config import LinearProbe, Run, Trained, Untuned
from rapt.tuning.denoising import Sampler, reading, save_denoised
from rapt.tuning.inputs import (
    Batch,
    Split,
    WordVectors,
    collate,
    letter_tokens,
    pooled_plain,
    read_split,
    read_targets,
)
from rapt.tuning.model import (
    Chooser,
    Classifier,
    ReconstructionHead,
    Writer,
    adapt,
    load_backbone,
    placed,
    save,
)
from rapt.tuning.scoring import features, logits, read_all
from rapt.utils.device import device, device_name, out_of_memory
from rapt.utils.errors import RaptError
from rapt.utils.progress import counter

CURVES = ("task_loss", "reconstruction_loss", "reconstruction_accuracy")


def train_seed(run: Run) -> SeedResult:
    """Tune on the release's training split, write the adapter, score on its test split.

    Raises:
        RaptError: the loss or a score is not a number, or memory does not suffice. Or the texts are
            too long for the backbone, or their vectors have another dimension.
    """
    (trained,) = train_seeds([run])
    if trained.checkpoint:
        trained.checkpoint.unlink()
    return trained.result


def train_seeds(runs: Sequence[Run]) -> list[Trained]:
    """Train the seeds of a cell one after the other, each as by `train_seed`.

    Frozen weights are loaded once for all of them; a backbone that learns is loaded for each.
    """
    # One thread: with more, sums and thus weights depend on the number of threads.
    torch.set_num_threads(1)
    first, frozen, trained = runs[0], None, []
    statement = json.loads((first.release / "statement.json").read_text())
    writes = statement["kind"] != "classify"
    if first.frozen is not None:
        torch.manual_seed(first.seed)
        frozen = load_backbone(first.backbone, first.quantize, first.frozen, writes=writes)
    for run in runs:
        line = RaptError(
            f"{run.cell}, seed {run.k}: got a device out of memory before or between steps, "
            "expected room for the model. Take a smaller backbone, bf16 or RAPT_WORKERS=1."
        )
        with _memory_lacks(line):  # a step handles its own
            trained.append(_trained(run, statement, frozen))
    return trained


def _trained(
    run: Run,
    statement: dict[str, Any],
    frozen: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None,
) -> Trained:
    torch.manual_seed(run.seed * 1_000_003 + run.k)
    kind, data = statement["kind"], run.release / f"seed-{run.k}"
    if frozen:
        backbone, tokenizer = sharing_weights(frozen[0]), frozen[1]
    else:
        writes = kind != "classify"
        backbone, tokenizer = load_backbone(run.backbone, encoder=run.encoder, writes=writes)
    known = sampler = None
    if run.denoising:
        known, sampler = reading(run.denoising, backbone, tokenizer)
    apart = translates(backbone)
    splits = {s: _read(run, statement, s, tokenizer, known, apart) for s in ("train", "test")}
    for split in splits.values():
        check_vectors(backbone, split.vectors)
    adapted = adapt(backbone, run.tuner)
    _fits(run, splits, adapted, kind)
    model = _model(run, statement, adapted, tokenizer)
    trainer = Trainer(run, model, tokenizer.pad_token_id, sampler)
    self_test.check(trainer.model, tokenizer.pad_token_id)
    if run.reconstruction and not isinstance(run.tuner, LinearProbe | Untuned):
        if run.denoising and run.denoising.type == "posterior-target":
            trainer.reconstruct(run.denoising.posterior, len(run.denoising.words))
        else:
            trainer.reconstruct(read_targets(data / "plain.parquet"), statement["vocabulary"])
    where = device_name()
    checkpoint = Checkpoint(run, where)
    holds_out = run.train.holds_out(len(splits["train"]))
    tuned, held_out = (
        splits["train"].of([row for row, held in enumerate(holds_out) if held is one])
        for one in (False, True)
    )
    curves = trainer.fit(tuned, checkpoint)
    save(trainer.model, run.adapter, run.backbone_name)
    if known:
        save_denoised(known, run.adapter)
    inference_spec.write(run, statement)
    metrics, scores, written = dict[str, float](), dict[str, Tensor](), None
    if kind == "generate":
        assert isinstance(model, Writer)
        written, metrics["finished"] = writing.write(
            model, splits["test"], tokenizer, run.decoding, run.train.batch_size
        )
    else:
        scored = {"train": held_out, "test": splits["test"]}
        scores = {name: _scores(trainer, split) for name, split in scored.items() if len(split)}
        metrics = _accuracies(scores["test"], splits["test"].labels, len(statement["labels"]))
    metrics |= trainer.reconstructs(splits["test"], tuned=set(tuned.sequences))
    result = SeedResult(seed=run.k, metrics=metrics, curves=curves)
    logits = {name: of[:, : len(statement["labels"])].numpy() for name, of in scores.items()}
    untuned = isinstance(run.tuner, Untuned)
    return Trained(result, logits, where, None if untuned else checkpoint.path, written)


def _read(
    run: Run,
    statement: dict[str, Any],
    split: str,
    tokenizer: PreTrainedTokenizerBase,
    known: WordVectors | None,
    apart: bool,
) -> Split:
    """Tokenize a split of the run's release, as its kind of task is read; see `writing`."""
    path = run.release / f"seed-{run.k}/{split}.parquet"
    most, chat = run.train.max_tokens, run.decoding.chat
    if statement["kind"] == "generate":
        return writing.read_split(path, tokenizer, most, apart=apart, chat=chat)
    letters = statement["labels"] if statement["kind"] == "choose" else []
    return read_split(path, tokenizer, most, known, letters, chat=chat)


def _model(
    run: Run,
    statement: dict[str, Any],
    adapted: PreTrainedModel | PeftModel,
    tokenizer: PreTrainedTokenizerBase,
) -> Classifier:
    """Make the model of a kind of task."""
    labels, precision = statement["labels"], run.train.precision
    if statement["kind"] == "generate":
        return Writer(adapted, precision)
    if statement["kind"] == "choose":
        if translates(adapted):
            raise RaptError(
                f"the backbone: got {adapted.config.model_type}, expected a causal language model, "
                "as a letter is the token after the prompt. Take another."
            )
        letters = letter_tokens(tokenizer, labels, chat=run.decoding.chat)
        return Chooser(adapted, letters, precision)
    return Classifier(adapted, len(labels), precision)


def _accuracies(scores: Tensor, labels: Sequence[int], classes: int) -> dict[str, float]:
    """Score answers of (n, classes), or of a column more: that of any other token."""
    found = {"accuracy": _share(scores[:, :classes], labels)}
    if scores.shape[1] > classes:
        found["exact_match"] = _share(scores, labels)
    return found


def _share(scores: Tensor, labels: Sequence[int]) -> float:
    """Return the share of texts whose highest score, of (n, answers), is the right one."""
    return (scores.argmax(1) == torch.tensor(labels)).double().mean().item()


def _scores(trainer: Trainer, split: Split) -> Tensor:
    run = trainer.run
    try:
        scores = logits(trainer.model, split, trainer.pad, run.train.batch_size)
    except RaptError as error:
        raise trainer.failed(trainer.steps, f"scoring: {error}") from None
    if not torch.isfinite(scores).all():
        rate = f" Lower learning_rate ({run.learning_rate})." if run.learning_rate else ""
        raise trainer.failed(
            trainer.steps, f"got a score that is not a number, expected a finite one.{rate}"
        )
    return scores


def _fits(
    run: Run, splits: dict[str, Split], model: PreTrainedModel | PeftModel, kind: Kind
) -> None:
    """Check that positions suffice for each text, for its target, and for what will be written."""
    most, of_written = most_tokens(model), most_tokens(model, written=True)
    if most is None or of_written is None:
        return
    apart = splits["train"].targets  # with positions of their own
    longest = max(max(split.lengths) for split in splits.values())
    with_target = "" if kind != "generate" or apart else " and those of a target"
    what = f"tokens with plain and special ones{with_target}"
    lower = "Lower it, or leave long targets out." if with_target else "Lower it."
    checks = [("train.max_tokens", longest, what, most, lower)]
    if kind == "generate":
        target = max(map(len, apart) if apart else map(sum, splits["train"].text))
        leave = "Leave it out, or take another backbone: nothing cuts a target."
        checks.insert(0, ("targets", target, "tokens in one", of_written, leave))
        before = 0 if apart else max(splits["test"].lengths)
        what, room = f"tokens after {before} of a prompt", max(0, of_written - before)
        lower = "Lower it." if apart else "Lower it or train.max_tokens."
        checks.append(("decoding.max_new_tokens", run.decoding.max_new_tokens, what, room, lower))
    for key, got, what, room, step in checks:
        if got > room:
            raise RaptError(
                f"{run.cell}, seed {run.k}: {key}: got {got} {what}, expected at most {room} "
                f"beside the tuner's own. {step}"
            )


class Trainer:
    """A model and its heads in training."""

    def __init__(
        self, run: Run, model: Classifier, pad: int, sampler: Sampler | None = None
    ) -> None:
        """Take an adapted backbone with its task head."""
        self.run, self.pad, self.device, self.steps = run, pad, device(), 0
        self.model = placed(model)
        self.parts = torch.nn.ModuleDict({"model": self.model})
        self.head: ReconstructionHead | None = None
        self.targets: Tensor | csr_array = torch.empty(0, 0, dtype=torch.long)
        self.sampler = sampler
        self.micro_batch = run.train.batch_size

    def reconstruct(self, targets: Tensor | csr_array, vocabulary: int) -> None:
        """Add the task of predicting words.

        Args:
            targets: plain tokens as indices into V_r, int64 (sequences, length). Or the posterior
                of each denoised word, float64 (R, V).
            vocabulary: the size of V_r, or V.
        """
        assert self.run.reconstruction
        hidden = self.model.head.in_features
        self.head = ReconstructionHead(hidden, self.run.reconstruction.head_size, vocabulary)
        self.parts["head"] = self.head.to(self.device)
        self.targets = targets.to(self.device) if isinstance(targets, Tensor) else targets

    def fit(self, split: Split, checkpoint: Checkpoint) -> dict[str, list[float]]:
        """Train, from the checkpoint on if there is one.

        Returns:
            each curve's mean over the texts, for every epoch; a linear probe has no epochs.
        """
        if isinstance(self.run.tuner, Untuned):
            return {}
        if isinstance(self.run.tuner, LinearProbe):
            self._probe(split, self.run.tuner.strength, checkpoint)
            return {}
        loop = self.run.train
        self.steps = loop.epochs * -(-len(split) // loop.batch_size)
        self.optimizer = torch.optim.AdamW(
            list(self._learning().values()),
            lr=self.run.learning_rate,
            weight_decay=loop.weight_decay,
            fused=self.device.type == "cuda" or None,  # None: AdamW's own choice
        )
        name = "linear" if loop.schedule == "linear" else "constant_with_warmup"
        warmup = int(loop.warmup * self.steps)
        self.schedule = get_scheduler(name, self.optimizer, warmup, self.steps)
        order = torch.Generator().manual_seed(torch.initial_seed())
        names = [name for name in CURVES if self.head or name == "task_loss"]
        start = Position(dict.fromkeys(names, 0.0), {name: [] for name in names})
        at = self._resumed(checkpoint, order) or start
        self.model.train()
        with counter(f"seed {self.run.k}", self.steps, "step", line=self.run.k) as progress:
            progress.update(at.step)
            while at.epoch < loop.epochs:
                epoch_begins = order.get_state()
                for rows in islice(shuffled(split.lengths, loop.batch_size, order), at.batch, None):
                    drawn = self.sampler(split, rows) if self.sampler else split
                    at.add(self._step(drawn, rows, at.step), len(rows))
                    progress.update()
                    if checkpoint.due():
                        self._save(checkpoint, at, epoch_begins)
                at.end_epoch(len(split))
                self._save(checkpoint, at, order.get_state())
        return at.curves

    def _probe(self, split: Split, strength: float, checkpoint: Checkpoint) -> None:
        """Fit the head to the frozen backbone's activations."""
        head, self.steps = self.model.head, 1
        if saved := checkpoint.load():
            head.load_state_dict(saved[0])
            return
        rows = range(len(split))
        drawn = self.sampler(split, rows) if self.sampler else split
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
        probe.fit(head, read, torch.tensor(split.labels), strength)
        checkpoint.save(head.state_dict(), {"at": {"step": 1}})

    def _learning(self) -> dict[str, torch.nn.Parameter]:
        """Return the trained weights by name."""
        return {name: w for name, w in self.parts.named_parameters() if w.requires_grad}

    def _save(self, checkpoint: Checkpoint, at: Position, order: Tensor) -> None:
        """Save the state on which the next step depends."""
        tensors, groups = flat(self.optimizer)
        tensors |= {f"weight.{name}": weight for name, weight in self._learning().items()}
        tensors |= {"rng.torch": torch.get_rng_state(), "rng.order": order}
        if self.device.type != "cpu":
            tensors["rng.device"] = torch.get_device_module(self.device).get_rng_state()
        facts = {"at": asdict(at), "groups": groups, "schedule": self.schedule.state_dict()}
        checkpoint.save(tensors, facts | {"micro_batch": self.micro_batch})

    def _resumed(self, checkpoint: Checkpoint, order: torch.Generator) -> Position | None:
        """Restore the state of a checkpoint, if there is one."""
        if (saved := checkpoint.load()) is None:
            return None
        tensors, facts = saved
        with torch.no_grad():
            for name, weight in self._learning().items():
                weight.copy_(tensors[f"weight.{name}"])
        unflat(self.optimizer, tensors, facts["groups"])
        self.schedule.load_state_dict(facts["schedule"])
        self.micro_batch = facts["micro_batch"]
        torch.set_rng_state(tensors["rng.torch"])
        order.set_state(tensors["rng.order"])
        if self.device.type != "cpu":
            torch.get_device_module(self.device).set_rng_state(tensors["rng.device"])
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
            right = (logits.argmax(-1) == likeliest).cpu().double()
            losses["reconstruction_accuracy"] = right.sum() / max(1, len(right))
        return losses

    def _step(self, split: Split, rows: list[int], step: int) -> dict[str, float]:
        """Take one step of the optimizer, in as many parts as memory requires.

        Returns:
            the losses, as means over the texts.
        """
        while True:
            try:
                losses = self._backward(split, rows, step)
                break
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                self.micro_batch = min(self.micro_batch, len(rows)) // 2
                if not self.micro_batch:
                    raise self.failed(
                        step + 1,
                        "got a device out of memory at one text, expected room for it. Lower "
                        "max_tokens, or set RAPT_WORKERS=1.",
                    ) from None
            torch.cuda.empty_cache()  # once the failed parts' tensors are gone with the exception
        line = self.failed(
            step + 1,
            "got a device out of memory for the optimizer's state, expected room for it. Tune "
            "fewer weights (lora).",
        )
        with _memory_lacks(line):
            self.optimizer.step()
        self.schedule.step()
        return losses

    def _backward(self, split: Split, rows: list[int], step: int) -> dict[str, float]:
        """Compute the gradient of a batch's mean loss in parts, whose size does not change it."""
        self.optimizer.zero_grad()
        sums: dict[str, float] = {}
        how = self.run.reconstruction
        capped = Capped(self._learning().values(), how.cap) if how and how.cap else None
        for start in range(0, len(rows), self.micro_batch):
            part = rows[start : start + self.micro_batch]
            losses = self._losses(collate(split, part, self.pad).to(self.device))
            loss, share = losses["task_loss"], len(part) / len(rows)
            if how:
                other = how.weight * losses["reconstruction_loss"]
                if capped:
                    capped.add(share * other)
                else:
                    loss = loss + other
            if not torch.isfinite(loss):
                raise self.failed(
                    step + 1,
                    "got a loss that is not a number, expected a finite one. Lower learning_rate "
                    f"({self.run.learning_rate}).",
                )
            (share * loss).backward()
            for name, value in losses.items():
                sums[name] = sums.get(name, 0.0) + share * value.item()
        if capped:
            capped.join()
        return sums

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
        found = read_all(self.model, split.of(rows), self.pad, size, counted).double().sum(0)
        words, right, new, new_right = found.tolist()
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
def _memory_lacks(line: RaptError) -> Iterator[None]:
    """Raise a one-line error where memory does not suffice."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise line from None
