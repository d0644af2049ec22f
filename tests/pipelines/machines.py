"""A coordinator and workers on one machine, which share nothing but what machines would."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT
from tests.pipelines.conftest import PATIENCE, SIDES, Toy, make

TRAIN = [f"train-{eta}-{seed}" for eta in ("1", "2", "inf") for seed in "ab"]
PROVIDER = [*TRAIN[:4], "merge"]
# At eta = inf a release is the text itself, so the stages on it stay with the user.
BARE = [*TRAIN[4:], "compare"]
USER = ["attack", "download", *(f"privatize-{eta}" for eta in ("1", "2", "inf")), *BARE]
CELLS = ["1-a", "1-b", "2-a", "2-b"]
PROVIDERS_OUTS = [
    *("data/private/1", "data/private/2", "reports/cells/merged"),
    *(f"{folder}/{cell}" for folder in ("models", "reports/cells") for cell in CELLS),
]
EVERY_STAGE = sorted([*USER, *PROVIDER, "report", "validate"])


@dataclass
class Machines:
    """A coordinator and workers, each in a folder of its own, with nothing between them but
    Prefect's server, a repository and a DVC remote."""

    toy: Toy
    folder: Path
    started: list[subprocess.Popen[Any]] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)

    def use_remote(self, address: str, **options: str) -> None:
        dvc = [sys.executable, "-m", "dvc", "remote"]
        self.toy.run(*dvc, "add", "--force", "--default", "shared", address)
        for name, value in options.items():
            self.toy.run(*dvc, "modify", "shared", name, value)
        self.toy.commit()

    def environment(self) -> dict[str, str]:
        return (
            self.toy.environment()
            | self.own
            | {
                "TOY_HOME": str(self.toy.root / ".rapt"),
                "PYTHONPATH": str(ROOT),
                "PREFECT_WORKER_QUERY_SECONDS": "1",
            }
        )

    def add_worker(self, name: str) -> subprocess.Popen[bytes]:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        command = ["worker", "start", "--pool", "provider", "--name", name, "--limit", "1"]
        with (folder / "log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "prefect", *command],
                cwd=folder,
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(worker)
        return worker

    def start(self) -> subprocess.Popen[str]:
        flow = self.toy.start("--pool", "provider", environment=self.environment())
        self.started.append(flow)
        return flow

    def run(self) -> str:
        flow = self.start()
        output = flow.communicate(timeout=PATIENCE)[0]
        assert flow.returncode == 0, output
        return output

    def ran_on(self, name: str) -> list[str]:
        """Return the stages that ran on a machine: a worker, or the toy's own folder."""
        return sorted(
            stage
            for stage, _, folder in self.toy.ran()
            if Path(folder).is_relative_to(self.folder / name)
        )

    def process_of(self, name: str) -> psutil.Process:
        return psutil.Process(next(int(pid) for n, pid, _ in self.toy.ran() if n == name))

    def sending_has_failed(self, stage: str) -> bool:
        logs = self.folder.glob(f"*/.rapt/worker/0/.rapt/logs/{stage}.send.log")
        return any("Error" in log.read_text() for log in logs)

    def md5_of(self, *outs: str) -> set[str]:
        paths = [p for out in outs for p in (self.toy.root / out).rglob("*")]
        return {md5(p.read_bytes()) for p in paths if p.is_file() and p.name[0] != "."}


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process and all its descendants that still run."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        for process in [top, *top.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@pytest.fixture(scope="package")
def pool(server: str) -> None:
    """The work pool and the deployment that prefect.yaml describes."""
    environment = os.environ | {"PREFECT_API_URL": server}
    for command in (
        ["work-pool", "create", "provider", "--type", "process", "--overwrite"],
        ["--no-prompt", "deploy", "--all"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def machines(tmp_path: Path, server: str, pool: None) -> Iterator[Machines]:
    with started(make(tmp_path / "coordinator", server, SIDES), tmp_path) as machines:
        yield machines


@contextmanager
def started(toy: Toy, folder: Path) -> Iterator[Machines]:
    """Give a toy a repository and a remote that others reach; end its workers."""
    toy.run("git", "init", "-q", "--bare", str(folder / "shared.git"))
    toy.git("remote", "add", "origin", str(folder / "shared.git"))
    machines = Machines(toy, folder)
    machines.use_remote(str(folder / "remote"))
    try:
        yield machines
    finally:
        for process in machines.started:
            kill(process.pid)  # an idle Prefect worker sometimes ignores a request to end
            process.communicate(timeout=PATIENCE)


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()
