"""Tuning, scoring, writing and serving on a second device, as on the CPU: no tensor stays there."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from rapt.analysis.hidden_states import hidden_states
from rapt.attacks import candidates
from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer
from rapt.serving.model import Adapted
from rapt.serving.protocol import Text
from rapt.text.table import EmbeddingTable
from rapt.tuning.config import DenoiserType, Run
from rapt.tuning.model import placed
from rapt.tuning.train import train_seeds
from rapt.tuning.tuners import Full, Tuner, Untuned
from rapt.utils import files
from rapt.utils.device import device
from tests.card import CARD, IS_REAL, OnCard, card
from tests.tuning.conftest import pad_of, texts, trainer_of
from tests.tuning.families import FAMILIES, TUNERS, cell, make
from tests.tuning.test_checkpoints import steps_after_a_stop
from tests.tuning.test_choosing import ALL
from tests.tuning.test_choosing import choose as choose
from tests.tuning.test_choosing import questions as questions
from tests.tuning.test_choosing import writers as writers
from tests.tuning.test_denoising import WORDS, Denoised, mixed
from tests.tuning.test_denoising import denoised as denoised
from tests.tuning.test_writing import TRANSLATORS
from tests.tuning.test_writing import sources as sources
from tests.tuning.test_writing import to_write as to_write
from tests.tuning.test_writing import translators as translators

pytestmark = pytest.mark.gpu
# A real card multiplies with ten bits of fraction.
NEAR = 0.02 if IS_REAL else 1e-4
QUICK = (("llama", "lora"), ("t5", "prefix-tuning"))
WRITE = [
    pytest.param(family, tuner, marks=[] if (family, tuner) in QUICK else pytest.mark.slow)
    for family in ("llama", *TRANSLATORS)
    for tuner in ALL
    if tuner != "bitfit" or family == "bart"  # the others have no biases
]
CHOOSE = [
    pytest.param(name, marks=[] if name == "p-tuning" else pytest.mark.slow)
    for name in ALL
    if name != "bitfit"
]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is not within `card`."""
    monkeypatch.setenv("RAPT_DEVICE", "cpu")


def assert_alike(run: Run) -> None:
    """Train and serve on the card, and compare with the CPU."""
    trained = {}
    for where, name in ((nullcontext, "cpu"), (card, "card")):
        once = run.train.model_copy(update={"epochs": 1, "batch_size": 24})
        own = replace(run, train=once, adapter=run.adapter.with_name(name))
        own = replace(own, backbone_name=str(run.backbone))
        with where():
            (trained[name],) = train_seeds([own])
        if checkpoint := trained[name].checkpoint:
            checkpoint.unlink()
    # Adam makes steps of a gradient that is 0 but for the rounding, as of a key's bias.
    rounded = 0.05 if isinstance(run.tuner, Full) else 10 * NEAR
    for name, curve in trained["cpu"].result.curves.items():
        np.testing.assert_allclose(trained["card"].result.curves[name], curve, rtol=rounded)
    table = files.read_parquet(run.release / "seed-0/test.parquet").slice(0, 5).to_pydict()
    names = [name for name in ("words", "segment", "plain", "space_after") if name in table]
    asked = [
        Text(**dict(zip(names, row, strict=True)))
        for row in zip(*(table[name] for name in names), strict=True)
    ]
    served = Adapted(own.adapter).answer(asked)
    with card():
        again = Adapted(own.adapter).answer(asked)
    if isinstance(served[0], str):
        assert again == served
    else:
        np.testing.assert_allclose(np.array(again), np.array(served), atol=NEAR)


@pytest.mark.parametrize("tuner", [*TUNERS, "bilstm", "untuned"])
def test_each_tuner(run: Run, backbone: Path, tuner: str) -> None:
    if tuner == "untuned":
        assert_alike(replace(run, tuner=Untuned(), reconstruction=None))
    else:
        assert_alike(cell(run, backbone, tuner))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_each_family(run: Run, tmp_path: Path, family: str) -> None:
    assert_alike(cell(run, make(family, tmp_path / family), "lora"))


@pytest.mark.parametrize("kind", get_args(DenoiserType))
def test_each_denoising(denoised: Denoised, kind: DenoiserType) -> None:
    assert_alike(denoised(mixed(len(WORDS)), kind=kind))


def test_a_capped_reconstruction(run: Run) -> None:
    assert run.reconstruction
    capped = run.reconstruction.model_copy(update={"cap": 0.5})
    assert_alike(replace(run, reconstruction=capped))


def test_vectors_behind_a_prefix(run: Run, denoised: Denoised, tmp_path: Path) -> None:
    """RoBERTa's positions are then given."""
    own = cell(run, make("roberta", tmp_path / "roberta"), "prefix-tuning")
    assert_alike(denoised(mixed(len(WORDS)), run=own))


@pytest.mark.parametrize("tuner", CHOOSE)
def test_each_tuner_chooses(
    writers: dict[str, Path], choose: Callable[[Path, Tuner], Run], tuner: str
) -> None:
    assert_alike(choose(writers["llama"], ALL[tuner]))


@pytest.mark.parametrize(("family", "tuner"), WRITE)
def test_each_tuner_writes(
    writers: dict[str, Path],
    translators: dict[str, Path],
    to_write: Callable[[Path, Tuner], Run],
    family: str,
    tuner: str,
) -> None:
    assert_alike(to_write((writers | translators)[family], ALL[tuner]))


@pytest.mark.slow
def test_a_stopped_run_goes_on_from_its_checkpoint(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with card():
        assert device() == CARD
        assert all(isinstance(w, OnCard) or w.is_cuda for w in trainer_of(run).parts.parameters())
        steps_after_a_stop(run, monkeypatch, seconds=0, last=5)


def test_a_fitted_head_is_read_from_its_checkpoint(run: Run) -> None:
    probe = replace(run, tuner=TUNERS["linear-probe"])
    with card():
        first, second = (train_seeds([probe])[0].result for _ in range(2))
    assert first == second


def test_hidden_states(run: Run) -> None:
    model = trainer_of(run).model
    expected = hidden_states(model, texts(run, "test"), pad_of(run))
    with card():
        found = hidden_states(placed(model), texts(run, "test"), pad_of(run))
    torch.testing.assert_close(found, expected, atol=NEAR, rtol=NEAR)


@pytest.mark.slow
def test_candidates_of_membership_inference(
    run: Run, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is asked on the device, and its answers are numpy's."""
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=math.inf)
    monkeypatch.setattr(candidates, "privatizer_of", lambda *_: privatizer)
    own = replace(run, backbone_name=str(run.backbone), reconstruction=None)
    with card():
        train_seeds([own])
        words = files.read_parquet(run.release / "seed-0/test.parquet").select(
            ["words", "segment", "label"]
        )
        found = candidates.answers(Adapted(own.adapter), words)
    np.testing.assert_allclose(found, candidates.answers(Adapted(own.adapter), words), atol=NEAR)
