"""Seeds of a cell in processes of their own."""

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rapt.tuning import parallel
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Run, Trained
from rapt.tuning.parallel import train_cell
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
