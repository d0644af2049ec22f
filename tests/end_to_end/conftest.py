"""A clone of the project with the demo at reduced size, run by DVC as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from ruamel.yaml import YAML

from tests.conftest import ROOT

Edit = Callable[[dict[str, Any]], Any]


def few_draws(params: dict[str, Any]) -> None:
    """Estimates that take seconds."""
    params["calibrate"] = {"etas": [50, 100], "words": 20, "draws": 5, "distances": 20}
    params["channel"] = {"frequent": 20, "sampled": 20, "draws": 5, "by_frequency": 50}


def reduced(params: dict[str, Any]) -> None:
    """The whole demo, small: every stage that it has, every method, one η."""
    params["sweep"] |= {"etas": [75], "tune_at": [75], "probes": []}
    params["seeds"] = 2
    params["tasks"]["movies"]["rows"] |= {"train": 64, "test": 40}
    params["tasks"]["tweets"]["rows"] |= {"train": 60, "test": 40}
    params["gate"] = {"min_rows": 10}
    params["train"] = {"epochs": 3, "max_tokens": 16}  # all but the last leave a checkpoint
    few_draws(params)
    params["methods"]["rapt"]["plain_tokens"]["length"] = 3


def ran(printed: str) -> set[str]:
    """The stages that ran, by what DVC printed."""
    return {line.split("'")[1] for line in printed.splitlines() if line.startswith("Running stage")}


class Workspace:
    """A clone with its own params.yaml."""

    def __init__(self, path: Path, edit: Edit | None = None) -> None:
        """A fresh clone with an edit; without one, what lies there."""
        self.path = path
        if edit is None:
            return
        names = self._git("ls-files", "-z", cwd=ROOT).split("\0")
        for name in filter(None, names):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, path / name)
        (path / "dvc.lock").unlink(missing_ok=True)
        (path / "reports/metrics.json").unlink(missing_ok=True)
        self.edit(edit)
        self._git("init", "-q")
        self.commit("reduced")

    def copy(self, path: Path) -> Workspace:
        """This workspace again, outs and cache included, sharing the disk where it can."""
        subprocess.run(["cp", "-a", "--reflink=auto", self.path, path], check=True)
        # MLflow's database names its own folder; the next flow or sync makes another.
        (path / "mlflow.db").unlink(missing_ok=True)
        shutil.rmtree(path / "mlartifacts", ignore_errors=True)
        return Workspace(path)

    def _git(self, *args: str, cwd: Path | None = None) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        command = ["git", *identity, *args]
        return subprocess.run(
            command, cwd=cwd or self.path, capture_output=True, text=True, check=True
        ).stdout

    def commit(self, message: str) -> None:
        self._git("add", "-A")
        self._git("commit", "-qm", message)

    def edit(self, edit: Edit) -> None:
        """Edit params.yaml, keeping its comments as a user would."""
        yaml = YAML()
        params = yaml.load(self.path / "params.yaml")
        edit(params)
        yaml.dump(params, self.path / "params.yaml")

    @property
    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAPT_", "OMP_"))}
        # This clone's own code, not the installed one.
        return clean | {"PATH": path, "PYTHONPATH": str(self.path), "PYTHONHASHSEED": "0"}

    def popen(self, *command: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=self.path, env=self.environment, text=True, **more)

    def run(self, *command: str, fails: bool = False) -> str:
        """Run a command to its end and return what it printed."""
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,  # a command that waits for something fails its test alone
        )
        assert fails == bool(done.returncode), done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout + done.stderr

    def dvc(self, *args: str, fails: bool = False) -> str:
        return self.run(sys.executable, "-m", "dvc", *args, fails=fails)

    def repro(self, *args: str) -> set[str]:
        """`dvc repro`; the names of the stages that ran."""
        return ran(self.dvc("repro", *args))

    def shell(self, line: str) -> str:
        """A line as a user types it."""
        return self.run("bash", "-euc", line)

    def read(self, name: str) -> str:
        return (self.path / name).read_text()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Workspace:
    """The reduced demo, made by the flow, once for all of pytest's processes. Not to be changed."""
    path = tmp_path_factory.getbasetemp().parent / f"demo-{testrun_uid}"
    done = path.with_suffix(".done")
    with FileLock(path.with_suffix(".lock")):
        if not done.exists():
            workspace = Workspace(path, reduced)
            workspace.run(sys.executable, "-m", "pipelines", "--slots", "2")
            workspace.commit("computed")
            done.touch()
    return Workspace(path)


@pytest.fixture(scope="module")
def demo(built: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A module's own copy of it."""
    return built.copy(tmp_path_factory.mktemp("demo") / "demo")
