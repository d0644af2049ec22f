"""The plan of DVC's graph, and what the provider's stages need."""

import re
import sys
from pathlib import Path

import pytest

from pipelines import graph
from rapt.utils.errors import RaptError
from tests.pipelines.conftest import FILES, SIDES, make
from tests.pipelines.machines import CELLS


def test_what_may_not_leave_is_not_the_provider_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SIDES["dvc.yaml"]
    for wrong, reason in (
        (
            given.replace("  download:", "  download:\n    meta: {side: provder}"),
            "dvc.yaml: download: meta.side: got 'provder', expected one of provider, user. "
            "Did you mean 'provider'?",
        ),
        (
            given.replace("  privatize:", "  privatize:\n    meta: {side: provider}"),
            "privatize@1: got data/raw, which is `push: false`, for the provider's side, expected "
            "what may leave this machine.",
        ),
        (
            given,
            "dvc: got an error, expected none. Its message: config file error: no remote specified",
        ),
    ):
        toy = make(tmp_path / str(len(wrong)), "", SIDES | {"dvc.yaml": wrong})
        monkeypatch.chdir(toy.root)
        with pytest.raises(RaptError, match=re.escape(reason)):
            graph.provider_side(toy.root)


def test_what_an_earlier_experiment_left_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = make(tmp_path, "", SIDES)
    monkeypatch.chdir(toy.root)
    (toy.root / "gone").write_text("")
    outs = "".join(f"    - path: {path}\n" for path in ("gone", "nowhere"))
    (toy.root / "dvc.lock").write_text(
        f"schema: '2.0'\nstages:\n  earlier:\n    cmd: x\n    outs:\n{outs}"
    )
    assert graph.left(toy.root) == ["gone"]


def test_a_tuner_of_the_cpu_takes_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = """\
stages:
  train:
    meta: {gpu: true}
    matrix: {tuner: [lora, words, bag]}
    cmd: exec python -m stages.train ${key}
    params: ["tuners.${item.tuner}"]
    outs: ["models/${key}"]
"""
    tuners = "tuners: {lora: {type: lora, r: 4}, words: {type: tfidf}, bag: tfidf}\n"
    toy = make(tmp_path, "", FILES | {"dvc.yaml": stages, "params.yaml": tuners})
    monkeypatch.chdir(toy.root)
    wanted = {name: stage.gpu for name, stage in graph.plan(toy.root).items()}
    assert wanted == {"train@lora": True, "train@words": False, "train@bag": False}


def test_a_stage_s_needs_are_the_outs_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = make(tmp_path, "", SIDES)
    monkeypatch.chdir(toy.root)
    toy.run(sys.executable, "-m", "dvc", "remote", "add", "-d", "shared", str(tmp_path / "remote"))
    needs = graph.provider_side(toy.root)
    assert sorted(needs) == [
        "compare",
        "merge",
        *(f"train@{cell}" for cell in [*CELLS, "inf-a", "inf-b"]),
    ]
    assert needs["train@1-a"] == {"privatize@1": ["data/private/1"]}
    assert needs["merge"] == {"train@1-a": ["models/1-a"], "train@2-a": ["models/2-a"]}
