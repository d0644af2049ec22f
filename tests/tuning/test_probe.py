"""The tuner that leaves the backbone as it is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import nn

from rapt.tuning import probe
from rapt.tuning.config import Run
from rapt.tuning.model import load
from rapt.tuning.train import train_seed, train_seeds
from rapt.tuning.tuners import LinearProbe, Lora
from rapt.utils.files import sha256


@pytest.fixture
def run(run: Run) -> Run:
    return replace(run, tuner=LinearProbe(strength=1.0))


@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_it_finds_the_one_optimum(strength: float) -> None:
    """On features of unlike scales, one of them constant."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(90, 6)) * [1e-3, 1, 1, 1, 50, 0] + 3
    labels = (features[:, 1] + features[:, 4] / 50 + rng.normal(size=90)).round().clip(3, 5) - 3
    scaled = StandardScaler().fit_transform(features)
    expected = LogisticRegression(C=strength, tol=1e-8, max_iter=9999).fit(scaled, labels)
    head = nn.Linear(6, len(expected.classes_))
    given = torch.from_numpy(features)
    probe.fit(head, given, torch.from_numpy(labels).long(), strength)
    found = head(given.float()).softmax(1).detach().numpy()
    np.testing.assert_allclose(found, expected.predict_proba(scaled), atol=2e-3)


def test_a_reconstruction_changes_nothing(run: Run, tmp_path: Path) -> None:
    without = replace(run, reconstruction=None, adapter=tmp_path / "without")
    assert train_seed(run) == train_seed(without)
    assert sha256(run.adapter) == sha256(without.adapter)


def test_a_seed_that_has_ended_is_only_scored_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = train_seeds([run])
    monkeypatch.delattr(probe, "fit")
    again = replace(run, adapter=tmp_path / "again")
    assert train_seeds([again]) == first
    assert sha256(again.adapter) == sha256(run.adapter)


def test_a_lost_adapter_is_no_probe(run: Run) -> None:
    train_seed(replace(run, tuner=Lora(r=2), train=run.train.model_copy(update={"epochs": 1})))
    for path in run.adapter.glob("adapter_*"):
        path.unlink()
    with pytest.raises(OSError, match=r"config\.json"):
        load(run.adapter, run.backbone)
