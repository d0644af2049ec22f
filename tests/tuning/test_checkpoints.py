import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from rapt.tuning import checkpoints, scoring, trainer
from rapt.tuning import train as module
from rapt.tuning.checkpoints import Checkpoint, generators, set_generators
from rapt.tuning.config import BiLstm, Run
from rapt.tuning.model import Classifier
from rapt.tuning.strategies import Private
from rapt.tuning.train import train_seed, train_seeds
from rapt.tuning.trainer import Trainer
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.files import sha256
from rapt.utils.process import cards, workers


class Stopped(Exception):
    pass


@pytest.fixture
def run(run: Run) -> Run:
    # Dropout takes random numbers at every step: they must go on where they stopped.
    return replace(run, tuner=run.tuner.model_copy(update={"dropout": 0.3}))


def stop(runs: Sequence[Run], monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Train until a step of the last run begins, counted from 0."""
    step = Trainer._step

    def stopping(self: Trainer, split: Any, rows: list[int], number: int) -> torch.Tensor:
        if (self.run.k, number) == (runs[-1].k, last):
            raise Stopped
        return step(self, split, rows, number)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", stopping)
        with pytest.raises(Stopped):
            train_seeds(runs)


def steps_after_a_stop(
    run: Run, monkeypatch: pytest.MonkeyPatch, seconds: int, last: int
) -> list[int]:
    """Stop a run that saves so often; it ends as one that was not stopped, after these steps."""
    whole = replace(run, adapter=run.adapter.with_name("whole"))
    expected = train_seed(whole)
    monkeypatch.setattr(checkpoints, "SECONDS", seconds)
    stop([run], monkeypatch, last)
    steps: list[int] = []
    step = Trainer._step
    monkeypatch.setattr(Trainer, "_step", lambda self, *a: steps.append(a[2]) or step(self, *a))
    assert train_seed(run) == expected
    assert sha256(run.adapter) == sha256(whole.adapter)
    return steps


@pytest.mark.parametrize("seconds", [checkpoints.SECONDS, 0])
@pytest.mark.parametrize("last", [5, 12, 29])  # of 36, 12 an epoch
def test_a_stopped_run_ends_as_one_that_was_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, last: int
) -> None:
    """Whether it saved after every step or at the end of epochs alone."""
    steps = steps_after_a_stop(run, monkeypatch, seconds, last)
    assert steps[0] == (last if seconds == 0 else last // 12 * 12)
    assert not list((tmp_path / "home/.rapt/checkpoints").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("clipping", ["flat", "quantile"])
def test_a_private_run_draws_the_same_texts_and_noise_after_a_stop(
    run: Run, monkeypatch: pytest.MonkeyPatch, clipping: Any
) -> None:
    """So what it spends is that of one run. The norm of `quantile` goes on where it was."""
    private = Private(epsilon=8, delta=1e-3, clipping=clipping)
    run = replace(run, tuner=run.tuner.model_copy(update={"private": private}))
    train = run.train.model_copy(update={"batch_size": 32})
    assert steps_after_a_stop(replace(run, train=train), monkeypatch, seconds=0, last=5)[0] == 5


def test_another_run_never_finds_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        replace(run, k=1),
        replace(run, seed=1),
        replace(run, tuner=run.tuner.model_copy(update={"r": 2})),
        replace(run, train=run.train.model_copy(update={"epochs": 4})),
        replace(run, reconstruction=None),
        replace(run, encoder=BiLstm(hidden=4, layers=1, dropout=0.0)),
    ]
    paths = {Checkpoint(each, "cpu").path for each in [run, *others]}
    paths.add(Checkpoint(run, "cuda").path)
    assert len(paths) == len(others) + 2
    # Names and folders change nothing that is computed.
    assert Checkpoint(replace(run, adapter=Path("x"), cell="y"), "cpu").path in paths


def test_what_a_kill_left_of_a_checkpoint_goes_with_the_next(run: Run, empty: Path) -> None:
    left = files.SCRATCH / f"{Checkpoint(run, 'cpu').path.name}.0123"
    other = left.with_name("adapter.0123")
    for path in (left, other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    train_seed(run)
    assert not left.exists()
    assert other.exists()


def test_a_damaged_checkpoint_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stop([run], monkeypatch, 20)
    path = Checkpoint(run, "cpu").path
    whole = path.read_bytes()
    for part, step in (
        (b"", "an unknown step"),
        (whole[:100], "an unknown step"),
        (whole[:-1], "step 12"),
    ):
        path.write_bytes(part)
        message = (
            rf"^movies-tiny, seed 0: got a damaged checkpoint of {step} .* Remove it .*: {path}$"
        )
        with pytest.raises(RaptError, match=message):
            train_seed(run)


@pytest.mark.slow
def test_killed_while_it_runs(run: Run, tmp_path: Path) -> None:
    """kill -9, as a machine would: the next start goes on, and ends as if nothing had been."""
    code = f"""
import os, signal
from pathlib import Path, PosixPath
from rapt.tuning.config import *
from rapt.tuning.tuners import *
from rapt.kinds.classify import Classify
from rapt.tuning.train import train_seed
from rapt.tuning.trainer import Trainer
step = Trainer._step
def stopping(self, split, rows, number):
    if number == 15:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, split, rows, number)
Trainer._step = stopping
train_seed({run!r})
"""
    killed = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert Checkpoint(run, "cpu").path.exists()
    assert not run.adapter.exists()
    expected = train_seed(run)
    assert train_seed(replace(run, adapter=tmp_path / "whole")) == expected
    assert sha256(run.adapter) == sha256(tmp_path / "whole")


def two_texts_fit(monkeypatch: pytest.MonkeyPatch, *, before: bool = True) -> list[int]:
    """Memory for no more, as shows before or after dropout is drawn; the parts that are tried."""
    losses, sizes = Trainer._losses, []

    def small(self: Trainer, batch: Any) -> Any:
        sizes.append(len(batch.labels))
        fits = len(batch.labels) <= 2
        found = losses(self, batch) if fits or not before else None
        if not fits:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return found

    monkeypatch.setattr(Trainer, "_losses", small)
    return sizes


def test_too_little_memory_halves_the_parts_and_keeps_the_batch(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without dropout, which draws other numbers for parts.
    monkeypatch.setattr(Classifier, "train", lambda self, mode=True: nn.Module.train(self, False))
    expected = train_seed(replace(run, adapter=tmp_path / "whole"))
    sizes = two_texts_fit(monkeypatch)
    result = train_seed(run)
    assert sizes[:4] == [8, 4, 2, 2]
    assert len(sizes) == 2 + 36 * 4
    for name, curve in expected.curves.items():
        assert result.curves[name] == pytest.approx(curve, rel=1e-3)


def test_parts_that_did_not_fit_leave_the_dropout_as_it_was(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for before, name in ((True, "one"), (False, "other")):
        with monkeypatch.context() as patch:
            two_texts_fit(patch, before=before)
            train_seed(replace(run, adapter=tmp_path / name))
    assert sha256(tmp_path / "one") == sha256(tmp_path / "other")


@pytest.mark.parametrize("cards", [1, 2])
def test_a_checkpoint_keeps_the_generator_of_every_card(
    monkeypatch: pytest.MonkeyPatch, cards: int
) -> None:
    states = [torch.full((16,), card, dtype=torch.uint8) for card in range(cards)]
    kept: list[torch.Tensor] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", kept.extend)
    cuda = torch.device("cuda")
    set_generators(cuda, generators(cuda))
    assert [state.tolist() for state in kept] == [state.tolist() for state in states]


def test_smaller_parts_last_beyond_a_stop(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = two_texts_fit(monkeypatch)
    stop([run], monkeypatch, 12)
    sizes.clear()
    train_seed(run)
    assert set(sizes) == {2}


TOO_LITTLE = [
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize("error", TOO_LITTLE, ids=["cuda", "cublas", "cpu"])
@pytest.mark.parametrize(
    ("owner", "name", "line"),
    [
        (trainer, "placed", ": got a device out of memory before or .* Take a smaller"),
        (Trainer, "_losses", ", step 1 of 36: .* out of memory at one text, .* Lower max_tokens"),
        (torch.optim.AdamW, "step", ", step 1 of 36: .* out of memory for the optimizer's state, "),
    ],
    ids=["backbone", "text", "optimizer"],
)
def test_too_little_memory_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, line: str, error: RuntimeError
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(owner, name, never)
    with pytest.raises(RaptError, match=rf"^movies-tiny, seed 0{line}.*$"):
        train_seed(run)


@pytest.mark.parametrize("error", TOO_LITTLE, ids=["cuda", "cublas", "cpu"])
def test_too_little_memory_for_scoring(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    activations = Classifier.activations

    def in_training_alone(self: Classifier, batch: Any) -> Any:
        if torch.is_inference_mode_enabled():
            raise error
        return activations(self, batch)

    monkeypatch.setattr(Classifier, "activations", in_training_alone)
    with pytest.raises(RaptError, match=r"^(?=.*movies-tiny)(?=.*seed 1\b)(?=.*\bscoring\b).*$"):
        train_seed(replace(run, k=1, train=run.train.model_copy(update={"epochs": 1})))


def test_another_error_is_no_lack_of_memory(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Trainer, batch: Any) -> Any:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(module.Trainer, "_losses", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        train_seed(run)


def test_a_score_that_is_no_number_is_not_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "logits", lambda _, split, *__: torch.full((len(split), 2), nan))
    line = r"^movies-tiny, seed 0, step 36 of 36: got a score .* number, .* Lower learning_rate .*$"
    with pytest.raises(RaptError, match=line):
        train_seed(run)


@pytest.mark.parametrize("given", ["0", "two", "-1"])
def test_a_number_of_workers_that_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("RAPT_WORKERS", given)
    with pytest.raises(RaptError, match=rf"^RAPT_WORKERS: got '{given}', expected a whole .*$"):
        workers(3)
    monkeypatch.setenv("RAPT_CARDS", given)
    with pytest.raises(RaptError, match=rf"^RAPT_CARDS: got '{given}', expected a whole .*$"):
        cards()
