"""Several machines leave what serial `dvc repro` leaves, and each side has what it may have."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pipelines.conftest import SIDES, Toy, make, toy_flow

TRAIN = [f"train-{eta}-{seed}" for eta in ("1", "2", "inf") for seed in "ab"]
PROVIDER = [*TRAIN[:4], "merge"]  # at eta = inf a release is the text
USER = ["attack", "download", *(f"privatize-{eta}" for eta in ("1", "2", "inf")), *TRAIN[4:]]
EVERY_STAGE = sorted([*USER, *PROVIDER, "report", "validate"])


@dataclass
class Machines:
    """A coordinator and workers, each in a folder of its own, with nothing between them but
    Prefect's server, a repository and a DVC remote."""

    toy: Toy
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        return self.toy.environment() | {
            "TOY_HOME": str(self.toy.root / ".rapt"),
            "PYTHONPATH": str(ROOT),
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }

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
        self.workers.append(worker)
        return worker

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            toy_flow("remote", "--slots", "2"),
            cwd=self.toy.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self) -> str:
        flow = self.start()
        output = flow.communicate(timeout=300)[0]
        assert flow.returncode == 0, output
        return output

    def ran_on(self, name: str) -> list[str]:
        """What ran on a machine: a worker, or the toy's own folder."""
        return sorted(
            stage
            for stage, _, folder in self.toy.ran()
            if Path(folder).is_relative_to(self.folder / name)
        )


@pytest.fixture(scope="session")
def pool(server: str) -> None:
    """The work pool and the deployment that prefect.yaml describes."""
    environment = os.environ | {"PREFECT_API_URL": server}
    for command in (
        ["work-pool", "create", "provider", "--type", "process"],
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
    toy = make(tmp_path / "coordinator", server, SIDES)
    toy.run("git", "init", "-q", "--bare", str(tmp_path / "shared.git"))
    toy.git("remote", "add", "origin", str(tmp_path / "shared.git"))
    toy.run(
        sys.executable, "-m", "dvc", "remote", "add", "-q", "-d", "shared", str(tmp_path / "remote")
    )
    toy.commit()
    machines = Machines(toy, tmp_path)
    yield machines
    for worker in machines.workers:
        worker.terminate()
    for worker in machines.workers:
        worker.wait(60)


def test_three_workers_leave_the_bytes_of_a_serial_run(
    machines: Machines, serial: dict[str, str]
) -> None:
    for name in ("one", "two", "three"):
        machines.add_worker(name)
    print(machines.run())
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == EVERY_STAGE
