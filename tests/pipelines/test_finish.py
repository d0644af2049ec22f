"""The end of a flow: what fails there is a warning."""

from __future__ import annotations

import pytest

from pipelines import finish
from rapt import params
from rapt.reporting import mlflow_mirror
from tests.conftest import ROOT


def test_results_that_mlflow_cannot_take_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(experiment: params.Params) -> str:
        raise OSError("disk\nfull")

    experiment = params.load(ROOT / "tests/every_section.yaml")
    monkeypatch.setattr(mlflow_mirror, "sync", fail)
    assert finish.mirror(experiment) is None
    assert capsys.readouterr().err == "warning: MLflow is not up to date: disk full\n"
    monkeypatch.setattr(mlflow_mirror, "sync", lambda _: "experiments/1")
    assert finish.mirror(experiment) == "experiments/1"


def test_a_mirror_that_lacks_nothing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[object] = []
    experiment = params.load(ROOT / "tests/every_section.yaml")
    monkeypatch.setattr(mlflow_mirror, "sync", synced.append)
    for is_synced, times in ((True, 0), (False, 1)):
        monkeypatch.setattr(mlflow_mirror, "is_synced", lambda _, known=is_synced: known)
        finish.mirror_if_changed(experiment)
        assert len(synced) == times
