from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rapt import files
from rapt.errors import RaptError
from rapt.reporting.compare import Change, changes, compare, read

PARAMS = """\
seed: 0
sweep:
  etas: [50, 75]
train:
  epochs: 3
"""
METRICS: dict[str, Any] = {
    "train": {"movies-lora-t2t-50": {"accuracy": 0.61}, "movies-lora-t2t-75": {"accuracy": 0.7}},
    "invert": {"nearest-movies-t2t-50": {"empirical_privacy": 0.9}},
}


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`main` with results, and an experiment as DVC stores one: a ref outside of the branches."""
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    Path("params.yaml").write_text(PARAMS)
    git("add", ".")
    git("commit", "--quiet", "-m", "params alone")
    git("tag", "bare")
    files.write_json("reports/metrics.json", METRICS)
    git("add", ".")
    git("commit", "--quiet", "-m", "results")
    base = git("rev-parse", "HEAD")
    Path("params.yaml").write_text(PARAMS.replace("epochs: 3", "epochs: 5").replace("75", "100"))
    changed = {
        "train": {
            "movies-lora-t2t-50": {"accuracy": 0.64},
            "movies-lora-t2t-100": {"accuracy": 0.75},
        },
        "invert": METRICS["invert"],
    }
    files.write_json("reports/metrics.json", changed)
    git("commit", "--quiet", "--all", "-m", "an experiment")
    git("update-ref", f"refs/exps/{base[:2]}/{base[2:]}/glum-dodo", "HEAD")
    git("reset", "--quiet", "--hard", base)
    return tmp_path


def test_params_and_metrics_that_differ_are_named(repository: Path) -> None:
    before, after = read("main"), read("glum-dodo")
    assert changes(before.params, after.params) == [
        Change("sweep.etas", "50, 75", "50, 100"),
        Change("train.epochs", "3", "5"),
    ]
    found = changes(before.metrics, after.metrics)
    assert [(c.name, c.before, c.after) for c in found] == [
        ("train movies-lora-t2t-50 accuracy", 0.61, 0.64),
        ("train movies-lora-t2t-75 accuracy", 0.7, None),
        ("train movies-lora-t2t-100 accuracy", None, 0.75),
    ]
    assert found[0].difference == pytest.approx(0.03)
    assert found[1].difference is None


def test_what_changed_is_printed(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare("main", "glum-dodo")
    out = capsys.readouterr().out
    for shown in ("train.epochs", "0.6100", "0.6400", "+0.0300", "2 params and 3 metrics differ"):
        assert shown in out
    assert "empirical_privacy" not in out
    compare("glum-dodo", None)
    assert "−0.0300" in capsys.readouterr().out
    compare("main", "HEAD")
    out = capsys.readouterr().out
    assert "params.yaml: nothing changed." in out
    assert "3 metrics equal" in out


def test_a_folder_below_the_repository_s_root_is_its_own(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "reports")
    with pytest.raises(RaptError, match=r"main: holds no params\.yaml"):
        read("main")


@pytest.mark.parametrize(
    ("revision", "line"),
    [
        (
            "glum-dod",
            "revision: got 'glum-dod', expected one of HEAD, bare, glum-dodo, ",
        ),
        ("--output=x", "revision: got '--output=x', "),
        ("bare", "bare: holds no reports/metrics.json"),
    ],
)
def test_what_cannot_be_compared_is_one_line(repository: Path, revision: str, line: str) -> None:
    with pytest.raises(RaptError) as error:
        compare(revision, None)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_without_git_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RaptError, match="git knows no revisions here"):
        compare("HEAD", None)
