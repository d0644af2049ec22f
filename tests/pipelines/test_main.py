"""The options of a flow's command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from pipelines import __main__, graph
from rapt import cli, params
from rapt.commands import check
from rapt.reporting import mlflow_mirror
from rapt.utils.errors import RaptError
from tests.conftest import ROOT


def test_rapt_flow_takes_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    command: list[str] = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(os, "execv", lambda _, given: command.extend(given))
    cli.app(["flow", "--pool", "cluster", "--slots", "3", "--per-gpu", "2"], standalone_mode=False)
    assert command[1:3] == ["-m", "pipelines"]
    line = r"^repository: got 'there', expected none without --pool\. Add --pool\.$"
    with pytest.raises(RaptError, match=line):
        __main__.start(1, None, "there")
    given: list[object] = []
    monkeypatch.setattr(__main__, "start", lambda *options: given.extend(options))
    app = typer.Typer()
    app.command()(__main__.main)
    app(command[3:], standalone_mode=False)
    assert given == [3, "cluster", None, 2]


def test_the_user_s_files_are_looked_at_each_time_and_models_where_something_runs(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DVC does not know the files: a changed one is not up to date."""
    for name in ("snapshot", "mirror"):
        monkeypatch.setattr(__main__, name, lambda _: None)
    monkeypatch.setattr(params, "load", lambda: None)
    monkeypatch.setattr(check, "of_files", lambda _: [])
    monkeypatch.setattr(check, "of_what_runs", lambda _: ["no model"])
    monkeypatch.setattr(graph, "plan", lambda _: {})
    __main__.start(1, None, None)
    monkeypatch.setattr(graph, "plan", lambda _: {"report": None})
    with pytest.raises(RaptError, match="no model"):
        __main__.start(1, None, None)
    monkeypatch.setattr(graph, "plan", lambda _: {})
    monkeypatch.setattr(check, "of_files", lambda _: ["it changed"])
    with pytest.raises(RaptError, match="it changed"):
        __main__.start(1, None, None)


def test_a_mirror_that_lacks_nothing_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    synced: list[object] = []
    experiment = params.load(ROOT / "tests/every_section.yaml")
    monkeypatch.setattr(mlflow_mirror, "sync", synced.append)
    for is_synced, times in ((True, 0), (False, 1)):
        monkeypatch.setattr(mlflow_mirror, "is_synced", lambda _, known=is_synced: known)
        __main__.mirror(experiment)
        assert len(synced) == times

    def fail(experiment: params.Params) -> str:
        raise OSError("disk\nfull")

    monkeypatch.setattr(mlflow_mirror, "sync", fail)
    __main__.mirror(experiment)
    assert capsys.readouterr().err == (
        "warning: MLflow is not up to date (OSError: disk full); rapt sync tries again.\n"
    )


NOBODY = """\
import getpass, os, pwd

def nobody(user):
    raise KeyError(user)

pwd.getpwuid = nobody
import pipelines
from dvc.dirs import global_config_dir

print(getpass.getuser() == str(os.getuid()), global_config_dir(), os.environ["PREFECT_HOME"])
"""


@pytest.mark.parametrize("home", [{}, {"HOME": ""}])
def test_a_user_without_a_home_and_an_entry_in_passwd_has_folders_of_the_project(
    tmp_path: Path, home: dict[str, str]
) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | home
    done = subprocess.run(
        [sys.executable, "-c", NOBODY],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    state = tmp_path / ".rapt"
    assert done.stdout.split() == ["True", f"{state}/config/dvc", f"{state}/prefect"], done.stderr
