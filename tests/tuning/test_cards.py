"""A seed that several processes train together: on the CPU, of one thread each."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rapt.tuning import cards, checkpoints, parallel
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Run, Trained
from rapt.tuning.gradients import GradientStep
from rapt.tuning.parallel import train_cell
from rapt.tuning.train import train_seeds
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Full, Lora, Tuner
from rapt.utils.errors import RaptError
from rapt.utils.files import sha256
from tests.tuning.test_choosing import choose as choose
from tests.tuning.test_choosing import questions as questions
from tests.tuning.test_choosing import writers as writers
from tests.tuning.test_denoising import WORDS, Denoised, mixed
from tests.tuning.test_denoising import denoised as denoised
from tests.tuning.test_writing import sources as sources
from tests.tuning.test_writing import to_write as to_write
from tests.tuning.test_writing import translators as translators

SLOWLY = 2e-3  # a learning rate: of larger steps rounding makes others


def without_dropout(backbone: Path, folder: Path) -> Path:
    """Return a copy of a model that has no dropout of its own."""
    shutil.copytree(backbone, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    none = {key: 0.0 for key in config if "drop" in key}
    (folder / "config.json").write_text(json.dumps(config | none))
    return folder


@pytest.fixture
def every(
    run: Run,
    denoised: Denoised,
    writers: dict[str, Path],
    translators: dict[str, Path],
    choose: Callable[[Path, Tuner], Run],
    to_write: Callable[[Path, Tuner], Run],
    tmp_path: Path,
) -> dict[str, Run]:
    """A run of each kind of task and of each gradient, without dropout.

    Steps of nine of 96 texts: the cards get four and five, and three at the end of an epoch.
    """
    lora = Lora(r=4, alpha=8, dropout=0.0, learning_rate=SLOWLY)
    assert run.reconstruction
    capped = run.reconstruction.model_copy(update={"cap": 0.25})
    runs = {
        "classify": run,
        "without reconstruction": replace(run, reconstruction=None),
        "capped": replace(run, reconstruction=capped),
        "posterior": denoised(mixed(len(WORDS)), kind="posterior-target"),
        "choose": choose(writers["llama"], lora),
        "write": to_write(writers["llama"], lora),
        "translate": to_write(translators["t5"], lora),
    }
    short = {"epochs": 2, "batch_size": 9}
    runs = {
        name: replace(each, tuner=lora, train=each.train.model_copy(update=short))
        for name, each in runs.items()
    }
    # A text for one of two cards in the last step; a weight that no loss reaches stays as it is.
    decay = {"epochs": 1, "batch_size": 95, "weight_decay": 0.1}
    runs["full"] = replace(
        run,
        tuner=Full(learning_rate=SLOWLY),
        reconstruction=None,
        train=run.train.model_copy(update=decay),
    )
    return {
        name: replace(each, backbone=without_dropout(each.backbone, tmp_path / "models" / name))
        for name, each in runs.items()
    }


def together(rank: int, meeting: Path, runs: Sequence[Run]) -> list[Trained]:
    cards.join(rank, 2, meeting)
    found = [one for run in runs for one in train_seeds([run])]
    assert len(found) == (0 if rank else len(runs))
    return found


@pytest.mark.slow
def test_two_cards_train_as_one(every: dict[str, Run], tmp_path: Path) -> None:
    """But for rounding: the weights, the curves and so the scores."""
    alone = [
        one
        for name, run in every.items()
        for one in train_seeds([replace(run, adapter=tmp_path / "alone" / name)])
    ]
    for one in alone:
        assert one.checkpoint
        one.checkpoint.unlink()
    runs = [replace(run, adapter=tmp_path / "both" / name) for name, run in every.items()]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        ranks = [pool.submit(together, rank, tmp_path / "meeting", runs) for rank in (0, 1)]
        both = ranks[0].result()
    for name, one, other in zip(every, alone, both, strict=True):
        assert other.device == f"2 × {one.device}"
        for curve, values in one.result.curves.items():
            # A part's accuracy is that of its words, and counts by its texts.
            near = 1e-2 if curve == "reconstruction_accuracy" else 1e-4
            np.testing.assert_allclose(other.result.curves[curve], values, rtol=near, err_msg=name)
        files = sorted((tmp_path / "alone" / name).rglob("*.safetensors"))
        assert files
        for path in files:
            weights = load_file(path)
            found = load_file(tmp_path / "both" / path.relative_to(tmp_path / "alone"))
            assert found.keys() == weights.keys()
            for key, weight in weights.items():
                torch.testing.assert_close(
                    found[key], weight, rtol=1e-3, atol=SLOWLY / 20, msg=f"{name}: {key}"
                )


def dying(rank: int, count: int, meeting: Path, runs: Sequence[Run]) -> list[Trained]:
    """Train as a process whose neighbour is killed; both save after every step."""
    step = Trainer._step

    def until_the_seventh(self: Trainer, split: Any, rows: Any, number: int) -> torch.Tensor:
        if rank and number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, split, rows, number)

    Trainer._step = until_the_seventh  # type: ignore[assignment,method-assign]
    checkpoints.SECONDS = 0
    return train_rank(rank, count, meeting, runs)


train_rank = parallel._train_rank


@pytest.mark.slow
def test_a_cell_whose_process_is_killed_goes_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, of which each card has its own: equal bytes, of both seeds."""
    monkeypatch.setenv("RAPT_CARDS", "2")
    run = replace(run, tuner=run.tuner.model_copy(update={"dropout": 0.3}))
    seeds = [replace(run, k=k, adapter=tmp_path / "killed" / str(k)) for k in (0, 1)]
    whole = [replace(each, adapter=tmp_path / "whole" / str(each.k)) for each in seeds]
    expected = train_cell(whole)
    assert not any(each.adapter.exists() for each in seeds)
    for one in expected:
        assert one.checkpoint
        one.checkpoint.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(parallel, "_train_rank", dying)
        with pytest.raises(
            RaptError, match=r"got a (killed process|process that no longer)[^\n]*$"
        ):
            train_cell(seeds)
    assert Checkpoint(run, "cpu").step() == "step 7"
    assert [one.result for one in train_cell(seeds)] == [one.result for one in expected]
    assert sha256(tmp_path / "killed") == sha256(tmp_path / "whole")
    # The second card's dropout is not the first's: the weights are not those of one card.
    monkeypatch.delenv("RAPT_CARDS")
    assert Checkpoint(run, "cpu").step() is None  # of another number of cards, as of another batch


def failing(rank: int, count: int, meeting: Path, runs: Sequence[Run]) -> list[Trained]:
    if rank:
        raise RaptError("movies-tiny: got nothing, expected memory.")
    return train_rank(rank, count, meeting, runs)


@pytest.mark.slow
def test_what_fails_in_one_process_ends_all(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first waits for the others meanwhile, and would for days."""
    monkeypatch.setenv("RAPT_CARDS", "2")
    monkeypatch.setattr(parallel, "_train_rank", failing)
    with pytest.raises(RaptError, match=r"^movies-tiny: got nothing, expected memory\.$"):
        train_cell([run])


@pytest.mark.parametrize(
    ("type_", "named", "cards_there", "most"),
    [("cuda", None, 1, 1), ("cuda", "cuda:1", 4, 1), ("mps", None, 0, 1)],
)
def test_more_cards_than_there_are_is_one_line(
    type_: str, named: str | None, cards_there: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "device", lambda: torch.device(named or type_))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards_there)
    monkeypatch.delenv("RAPT_DEVICE", raising=False)
    if named:
        monkeypatch.setenv("RAPT_DEVICE", named)
    line = rf"^RAPT_CARDS: got 2, expected at most {most} with device {named or type_}\.$"
    with pytest.raises(RaptError, match=line):
        cards.join(0, 2, Path("meeting"))


def test_each_card_and_each_step_has_numbers_of_its_own(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_rng_state()
    cards.begin_step(run, 3)
    assert torch.equal(torch.get_rng_state(), before)  # of one card they go on
    monkeypatch.setattr(cards, "_are_several", lambda: True)
    drawn = []
    for rank in (0, 1):
        monkeypatch.setattr(cards, "rank", lambda rank=rank: rank)
        for step in (0, 1, 0):
            cards.begin_step(run, step)
            drawn.append(torch.rand(1).item())
    assert drawn[0] == drawn[2] and drawn[3] == drawn[5]
    assert len(set(drawn)) == 4


class Stranger(GradientStep):
    """A strategy of another package, which may keep what `held` does not see."""

    def add(self, task: torch.Tensor, other: torch.Tensor | None, share: float) -> None:
        (share * task).backward()


def test_a_gradient_of_one_card_alone_is_one_line() -> None:
    with pytest.raises(RaptError, match=r"^RAPT_CARDS: got Stranger, .*, expected 1\.$"):
        Stranger([]).held()
