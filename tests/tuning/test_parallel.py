"""Seeds of a cell in processes of their own."""

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rapt.tuning import checkpoints, parallel
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Run, Trained
from rapt.tuning.parallel import train_cell
from rapt.tuning.trainer import Trainer
from rapt.utils import process
from rapt.utils.errors import RaptError
from rapt.utils.files import sha256


@pytest.mark.slow
def test_equal_runs_give_equal_bytes_side_by_side_or_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests, results = [], []
    for workers in ("1", "2"):
        monkeypatch.setenv("RAPT_WORKERS", workers)
        folder = tmp_path / workers
        results.append(train_cell([replace(run, k=k, adapter=folder / str(k)) for k in (0, 1)]))
        for result in results[-1]:
            assert result.checkpoint
            result.checkpoint.unlink()
        digests.append(sha256(folder))
    assert digests[0] == digests[1]
    assert [t.result for t in results[0]] == [t.result for t in results[1]]
    assert sha256(tmp_path / "1/0") != sha256(tmp_path / "1/1")


def killed(runs: Sequence[Run]) -> list[Trained]:
    """A worker whose memory the machine takes."""
    os.kill(os.getpid(), signal.SIGKILL)
    return []


@pytest.mark.slow
def test_a_killed_process_ends_the_cell_with_a_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_train_share", killed)
    monkeypatch.setenv("RAPT_WORKERS", "1")
    with pytest.raises(
        RaptError,
        match=r"^movies-tiny: got a killed process, .* expected .* Lower batch_.* begins .*$",
    ):
        parallel.train_cell([run])
    facts = {"at": {"step": 12}}
    Checkpoint(run, "cpu").save({"weight": torch.zeros(1)}, facts)
    monkeypatch.setenv("RAPT_WORKERS", "2")
    with pytest.raises(
        RaptError,
        match=r"^movies-tiny: .* Set RAPT_WORKERS below 2, or .* with seed 0 from step 12 .*$",
    ):
        parallel.train_cell([run, replace(run, k=1)])


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("fit", "given", "expected"), [(2, None, [[0, 2], [1]]), (1, None, [[0, 1, 2]]), (1, "3", 3)]
)
def test_on_a_gpu_its_memory_says_how_many_seeds_are_side_by_side(
    run: Run, fit: int, given: str | None, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless RAPT_WORKERS does. A seed knows whether it is beside others."""
    shares: list[Sequence[Run]] = []

    def recorded(runs: Sequence[Run]) -> list[Trained]:
        shares.append(runs)
        return []

    monkeypatch.setattr(parallel, "has_gpu", lambda: True)
    monkeypatch.setattr(parallel, "_that_fit", lambda run, most: min(fit, most))
    monkeypatch.setattr(parallel, "_train_share", recorded)
    monkeypatch.setattr(process, "cores", lambda: 8)
    monkeypatch.delenv("RAPT_WORKERS", raising=False)
    if given:
        monkeypatch.setenv("RAPT_WORKERS", given)
    train_cell([replace(run, k=k) for k in range(3)])
    seeds = [[each.k for each in share] for share in shares]
    assert seeds == ([[0], [1], [2]] if expected == 3 else expected)
    assert {each.beside for share in shares for each in share} == {len(shares) > 1}


@pytest.mark.usefixtures("in_this_process")
def test_a_seed_without_memory_beside_others_runs_again_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its dropout and its bytes of one alone, and a line that says so."""
    run = replace(run, tuner=run.tuner.model_copy(update={"dropout": 0.3}))
    alone, beside = (
        [replace(run, k=k, adapter=tmp_path / f / str(k)) for k in (0, 1)] for f in "ab"
    )
    expected = train_cell(alone)
    for one in expected:
        assert one.checkpoint
        one.checkpoint.unlink()
    monkeypatch.setattr(parallel, "has_gpu", lambda: True)
    monkeypatch.setenv("RAPT_WORKERS", "2")
    monkeypatch.setattr(checkpoints, "SECONDS", 0)
    backward, tried = Trainer._backward, list[tuple[int, bool]]()

    def lacking(self: Trainer, split: Any, rows: Sequence[int]) -> Any:
        tried.append((self.run.k, self.run.beside))
        found = backward(self, split, rows)  # draws numbers of its dropout first
        if self.run.k and self.run.beside and len(tried) > 40:
            raise torch.OutOfMemoryError
        return found

    monkeypatch.setattr(Trainer, "_backward", lacking)
    assert [one.result for one in train_cell(beside)] == [one.result for one in expected]
    assert sha256(tmp_path / "a") == sha256(tmp_path / "b")
    line = "movies-tiny: the GPU has too little memory for seed 1 beside others; it runs again"
    assert capsys.readouterr().err.count(line) == 1
    assert tried[35:41] == [(0, True), *[(1, True)] * 5]
    assert tried[41] == (1, False)
    assert len(tried) == 36 + 36 + 1  # the fifth step once more


@pytest.mark.usefixtures("in_this_process")
def test_another_error_beside_others_ends_the_cell(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "has_gpu", lambda: True)
    monkeypatch.setenv("RAPT_WORKERS", "2")
    wild = replace(run, tuner=run.tuner.model_copy(update={"learning_rate": 1e30}))
    with pytest.raises(RaptError, match="got a loss that is not a number"):
        train_cell([replace(wild, k=k) for k in (0, 1)])
