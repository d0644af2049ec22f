"""Training of one seed on a release: the task, with the reconstruction of plain tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rapt import paths
from rapt.results.cells import SeedResult
from rapt.tuning import cards, inference_spec, self_test
from rapt.tuning.backbones import AnyModel, check_vectors, most_tokens, translates
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Run, Trained
from rapt.tuning.denoising import reading, save_denoised
from rapt.tuning.inputs import Reader, Split, read_columns, read_targets
from rapt.tuning.loading import recompute, sharing_weights
from rapt.tuning.model import adapt, load_backbone, save
from rapt.tuning.redaction import Redacted
from rapt.tuning.trainer import Trainer, memory_lacks
from rapt.utils import files
from rapt.utils.device import device, device_name
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

    Frozen weights are loaded once for all of them; a backbone that learns is loaded for each. Of
    several processes that train a seed together only the first returns it.
    """
    # One thread: with more, sums and thus weights depend on the number of threads.
    torch.set_num_threads(1)
    first, frozen = runs[0], None
    trained: list[Trained] = []
    statement = files.read_json(paths.statement(first.release))
    if first.frozen is not None:
        torch.manual_seed(first.seed)
        frozen = backbone_of(first, statement)
    for run in runs:
        line = RaptError(
            f"{run.cell}, seed {run.k}: got a device out of memory before or between steps, "
            "expected room for the model. Take a smaller backbone, bf16 or RAPT_WORKERS=1."
        )
        with memory_lacks(line), tf32():  # a step handles its own
            trained += _trained(run, statement, frozen)
    return trained


def backbone_of(run: Run, statement: Mapping[str, Any]) -> tuple[PreTrainedModel, Reader]:
    """Load the backbone of a run on a release with this statement, and how it reads texts."""
    backbone, tokenizer = load_backbone(
        run.backbone,
        run.quantize,
        run.frozen,
        run.encoder,
        run.kind.is_language_model,
        run.kind.is_causal,
        inference_spec.layer_of(statement),
    )
    apart = translates(backbone)
    return backbone, Reader(tokenizer, run.train.max_tokens, run.decoding.chat, apart)


@contextmanager
def tf32() -> Iterator[None]:
    """Let a CUDA GPU multiply float32 as TF32, with ten bits of fraction, at many times the rate.

    In tuning alone: mechanisms and attacks count on float32.
    """
    how = torch.backends.cuda.matmul
    before = how.fp32_precision
    if device().type == "cuda":
        how.fp32_precision = "tf32"
    try:
        yield
    finally:
        how.fp32_precision = before


def _trained(
    run: Run, statement: Mapping[str, Any], frozen: tuple[PreTrainedModel, Reader] | None
) -> list[Trained]:
    torch.manual_seed(run.seed * 1_000_003 + run.k)
    kind, data = run.kind, paths.seed(run.release, run.k)
    if frozen:
        backbone, reader = sharing_weights(frozen[0]), frozen[1]
    else:
        backbone, reader = backbone_of(run, statement)
    known = sampler = None
    if run.denoising:
        known, sampler = reading(run.denoising, backbone, reader.tokenizer)
    splits, redacted = {}, None
    for name in ("train", "test"):
        columns, vectors = read_columns(data / f"{name}.parquet", known)
        found = kind.tokenized(columns, reader, vectors)
        splits[name] = replace(found, authors=columns.get("author"))
        check_vectors(backbone, splits[name].vectors)
        if name == "train":
            redacted = Redacted.of(run, columns, reader, statement)
    adapted = adapt(backbone, run.tuner)
    if run.train.gradient_checkpointing:
        recompute(adapted)
    _check_positions(run, splits, adapted)
    model = kind.model(adapted, reader, run.train.precision)
    trainer = Trainer(run, model, reader.pad, sampler)
    longest = max(run.train.max_tokens, *(max(split.lengths) for split in splits.values()))
    room = most_tokens(adapted) or longest
    self_test.check(trainer.model, reader.pad, min(longest, room))
    kind.try_out(trainer.model, reader, run.decoding)
    if run.reconstruction and run.tuner.learns in ("backbone", "adapter"):
        if run.denoising and run.denoising.type == "posterior-target":
            trainer.reconstruct(run.denoising.posterior, len(run.denoising.words))
        else:
            trainer.reconstruct(read_targets(data / "plain.parquet"), statement["vocabulary"])
    where = device_name()
    checkpoint = Checkpoint(run, where)
    rows = len(splits["train"])
    held_out = splits["train"].of([r for r, held in enumerate(run.train.holds_out(rows)) if held])
    tuned = splits["train"].of(run.train.tunes_on(rows, run.k))
    if redacted:
        curves = redacted.tune_twice(trainer, tuned, checkpoint, where)
    else:
        curves = trainer.fit(tuned, checkpoint)
    if cards.rank():
        return []
    save(trainer.model, run.adapter, run.backbone_name)
    if known:
        save_denoised(known, run.adapter)
    promised = trainer.statement() | (redacted.statement() if redacted else {})
    inference_spec.write(run, statement, len(tuned), promised)
    # By the rows held out the user weighs the classes of a model on the own machine.
    asked = {"train": held_out} if kind.has_classes and len(held_out) else {}
    asked["test"] = splits["test"]
    outputs = {name: _outputs(trainer, split, reader) for name, split in asked.items()}
    metrics = kind.measured(outputs["test"], splits["test"])
    metrics |= trainer.reconstructs(splits["test"], tuned=set(tuned.sequences))
    result = SeedResult(seed=run.k, metrics=metrics, curves=curves)
    answers = {name: kind.kept(of_split) for name, of_split in outputs.items()}
    untuned = run.tuner.learns == "nothing"
    name = where if cards.count() == 1 else f"{cards.count()} × {where}"
    kept = None if untuned else checkpoint.path
    return [Trained(result, answers, name, kept, promised)]


def _outputs(trainer: Trainer, split: Split, reader: Reader) -> Any:
    run = trainer.run
    try:
        outputs = run.kind.outputs(trainer.model, split, reader, run.decoding, run.train.batch_size)
    except RaptError as error:
        raise trainer.failed(trainer.steps, f"scoring: {error}") from None
    if isinstance(outputs, Tensor) and not torch.isfinite(outputs).all():
        rate = f" Lower learning_rate ({run.learning_rate})." if run.learning_rate else ""
        raise trainer.failed(
            trainer.steps, f"got a score that is not a number, expected a finite one.{rate}"
        )
    return outputs


def _check_positions(run: Run, splits: dict[str, Split], model: AnyModel) -> None:
    """Check that the backbone's positions suffice for all that is read and written."""
    for need in run.kind.needs(model, splits, run.decoding):
        if need.got > need.room:
            raise RaptError(
                f"{run.cell}, seed {run.k}: {need.key}: got {need.got} {need.what}, expected at "
                f"most {need.room} beside the tuner's own. {need.advice}"
            )
