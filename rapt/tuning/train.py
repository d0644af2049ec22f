"""Training of one seed on a release: the task, with the reconstruction of plain tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rapt import paths
from rapt.param_types import Kind
from rapt.results.cells import SeedResult
from rapt.tuning import inference_spec, self_test, writing
from rapt.tuning.backbones import check_vectors, most_tokens, sharing_weights, translates
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Run, Trained
from rapt.tuning.denoising import reading, save_denoised
from rapt.tuning.inputs import Split, WordVectors, letter_tokens, read_split, read_targets
from rapt.tuning.model import Chooser, Classifier, Writer, adapt, load_backbone, save
from rapt.tuning.scoring import logits
from rapt.tuning.trainer import Trainer, memory_lacks
from rapt.utils import files
from rapt.utils.device import device_name
from rapt.utils.errors import RaptError


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
    statement = files.read_json(paths.statement(first.release))
    writes = statement["kind"] != "classify"
    if first.frozen is not None:
        torch.manual_seed(first.seed)
        frozen = load_backbone(first.backbone, first.quantize, first.frozen, writes=writes)
    for run in runs:
        line = RaptError(
            f"{run.cell}, seed {run.k}: got a device out of memory before or between steps, "
            "expected room for the model. Take a smaller backbone, bf16 or RAPT_WORKERS=1."
        )
        with memory_lacks(line):  # a step handles its own
            trained.append(_trained(run, statement, frozen))
    return trained


def _trained(
    run: Run,
    statement: dict[str, Any],
    frozen: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None,
) -> Trained:
    torch.manual_seed(run.seed * 1_000_003 + run.k)
    kind, data = statement["kind"], paths.seed(run.release, run.k)
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
    longest = max(run.train.max_tokens, *(max(split.lengths) for split in splits.values()))
    room = most_tokens(adapted) or longest
    self_test.check(trainer.model, tokenizer.pad_token_id, min(longest, room))
    if run.reconstruction and run.tuner.learns in ("backbone", "adapter"):
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
    untuned = run.tuner.learns == "nothing"
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
    path = paths.seed(run.release, run.k) / f"{split}.parquet"
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
