"""A small DVC project: validate, a matrix of four cells, a report over their folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import pipelines  # noqa: F401  (before Prefect)

PATIENCE = 600  # seconds, for what comes in a few where nothing else runs
FLOW = (sys.executable, str(Path(__file__).with_name("toy_flow.py")))
VALIDATE = """\
stages:
  validate:
    cmd: exec python -m stages.validate
    deps: [stages/validate.py]
    outs: [data/ok]
"""
REPORT = """\
  report:
    cmd: exec python -m stages.report
    deps: [stages/report.py, reports/cells]
    outs: [reports/report.txt]
    # Not among the outs: DVC keeps a stage with a `cache: false` out there out of the run-cache.
    metrics: [reports/metrics.json: {cache: false}]
"""
FILES = {
    "params.yaml": "x: [1, 2]\ny: [a, b]\nbroken: none\nwait: none\n",
    "dvc.yaml": VALIDATE
    + """\
  cell:
    matrix: {x: "${x}", y: "${y}"}
    cmd: exec python -m stages.cell ${key}
    deps: [stages/cell.py, rapt/mark.py, data/ok]
    outs: ["reports/cells/${key}.txt"]
"""
    + REPORT,
    # Like the benchmarks: `dvc repro` at the root ignores it, and so must the flow.
    "benchmarks/dvc.yaml": "stages: {never: {cmd: exit 1, outs: [never.json: {cache: false}]}}\n",
    "rapt/__init__.py": "",
    "rapt/mark.py": 'MARK = "first"\n',
    # Every stage logs its run and its folder in the main workspace, unseen by DVC.
    "stages/__init__.py": """\
import ctypes, os, sys, time
from pathlib import Path
from rapt import mark

def home():  # of all machines, where there are several
    return Path(os.environ.get("TOY_HOME", Path(os.environ.get("RAPT_HOME", ".")) / ".rapt"))

def ran(name):
    with (home() / "ran").open("a") as log:
        log.write(f"{name} {os.getpid()} {Path(mark.__file__).parents[1]}\\n")

def began(name):
    ctypes.CDLL(None).prctl(1, 9)  # as stages.run does: die with dvc
    ran(name)
    if (home() / f"break-{name}").exists():
        sys.exit(f"no luck with {name}")
    while (home() / f"wait-{name}").exists():
        time.sleep(0.05)

def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
""",
    "stages/validate.py": 'import stages\nstages.ran("validate")\nstages.write("data/ok", "ok")\n',
    "stages/cell.py": """\
import sys
from pathlib import Path
import stages
from rapt.mark import MARK
home, key = stages.home(), sys.argv[1]
stages.began(key)
if (home / f"fill-{key}").exists():
    Path("reports/cells").mkdir(parents=True, exist_ok=True)
    Path(f"reports/cells/{key}.txt").write_text("half of it")
    try:
        Path("/dev/full").write_text("the other half")
    except OSError as error:
        sys.exit(str(error))
processor = home / "processor"
text = f"{key} {MARK}" + (processor.read_text() if processor.exists() else "")
stages.write(f"reports/cells/{key}.txt", text)
""",
    "stages/report.py": """\
from pathlib import Path
import stages
stages.ran("report")
cells = sorted(path for path in Path("reports/cells").rglob("*") if path.is_file())
text = "".join(f"{path} {path.read_text()}\\n" for path in cells)
stages.write("reports/report.txt", text)
stages.write("reports/metrics.json", '{"cells": %d}' % len(text.splitlines()))
""",
    # As `dvc init` leaves them.
    ".dvc/config": "[core]\n    analytics = false\n",
    ".dvc/.gitignore": "/config.local\n/tmp\n/cache\n",
    ".gitignore": "__pycache__/\n.rapt/\n",
    ".dvcignore": "__pycache__/\n.rapt/\n",
    "data/.gitignore": "/*\n!.gitignore\n",
    "reports/.gitignore": "/*\n!.gitignore\n!metrics.json\n",
}

# Two sides: raw text and its derivatives stay, releases go to the provider, adapters come back.
SIDES = FILES | {
    "params.yaml": "eta: [1, 2, inf]\nseed: [a, b]\n",
    "dvc.yaml": VALIDATE
    + """\
  download:
    cmd: exec python -m stages.make download data/raw
    deps: [stages/make.py, data/ok]
    outs: [data/raw: {push: false}]
  privatize:
    matrix: {eta: "${eta}"}
    cmd: exec python -m stages.make privatize-${key} data/private/${item.eta} data/tags/${item.eta}
    deps: [stages/make.py, data/raw]
    outs: ["data/private/${item.eta}", "data/tags/${item.eta}"]
  train:
    meta: {side: provider}
    matrix: {eta: "${eta}", seed: "${seed}"}
    cmd: exec python -m stages.make train-${key} models/${key} reports/cells/${key}
    deps: [stages/make.py, rapt/mark.py, "data/private/${item.eta}"]
    outs: ["models/${key}", "reports/cells/${key}"]
  merge:
    meta: {side: provider}
    cmd: exec python -m stages.make merge reports/cells/merged
    deps: [stages/make.py, models/1-a, models/2-a]
    outs: [reports/cells/merged]
  compare:
    meta: {side: provider}
    cmd: exec python -m stages.make compare reports/cells/compared
    deps: [stages/make.py, models/1-b, models/inf-a]
    outs: [reports/cells/compared]
  attack:
    cmd: exec python -m stages.make attack reports/cells/attack
    deps: [stages/make.py, data/raw, models/1-a]
    outs: [reports/cells/attack: {push: false}]
"""
    + REPORT,
    "stages/make.py": """\
import json, os, sys
from pathlib import Path
import stages
name, *outs = sys.argv[1:]
stages.began(name)
for out in outs:
    stages.write(f"{out}/text", f"{name} made {out}")
    if out.startswith("reports/cells/"):  # as rapt/results/cells.py does
        sidecar = Path(os.environ.get("RAPT_HOME", "."), ".rapt/runs", out[len("reports/cells/"):])
        stages.write(sidecar, os.environ.get("RAPT_COMMIT", "at home"))
    if out.startswith("data/private"):
        protection = "unprotected" if out.endswith("inf") else "d_X-privacy"
        stages.write(f"{out}/statement.json", json.dumps({"protection": protection}))
""",
    "models/.gitignore": "/*\n!.gitignore\n",
}
del SIDES["stages/cell.py"]


@dataclass(frozen=True)
class Toy:
    """A toy project, with commands on it and queries of its state."""

    root: Path
    server: str  # Prefect's address, or none
    prefect_home: Path | None = None
    mlflow: Path | None = None  # an experiment that its flows mirror in MLflow; None: none

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=self.root, env=self.environment(), capture_output=True, text=True
        )
        assert not check or not done.returncode, done.stdout + done.stderr
        return done

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        prefect = {"PREFECT_API_URL": self.server} if self.server else {}
        home = {"PREFECT_HOME": str(self.prefect_home)} if self.prefect_home else {}
        mlflow = {"TOY_MLFLOW": str(self.mlflow)} if self.mlflow else {}
        return os.environ | {"PATH": path} | prefect | home | mlflow

    def without_server(self, home: Path) -> Toy:
        """The same toy, whose flow has to start a Prefect server itself, with its own database."""
        return Toy(self.root, "", home)

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=toy", "-c", "user.email=toy@localhost"]
        return self.run("git", *identity, *arguments).stdout

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "toy")

    def serial(self) -> None:
        self.run(sys.executable, "-m", "dvc", "repro", "-q")

    def flow(self, slots: int = 2) -> subprocess.CompletedProcess[str]:
        return self.run(*FLOW, "--slots", str(slots), check=False)

    def start(
        self, *options: str, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*FLOW, "--slots", "2", *options],
            cwd=self.root,
            env=environment or self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def flag(self, name: str) -> Path:
        path = self.root / ".rapt" / name
        path.touch()
        return path

    def ran(self) -> list[list[str]]:
        """Return name, process id and folder of every stage that ran, in order."""
        path = self.root / ".rapt/ran"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def names(self) -> list[str]:
        return sorted(name for name, *_ in self.ran())

    def outcome(self) -> dict[str, str]:
        """Return the sha256 of dvc.lock and of every out."""
        files = [self.root / "dvc.lock"]
        for folder in ("data", "models", "reports"):
            files += [p for p in (self.root / folder).rglob("*") if p.is_file()]
        return {
            str(p.relative_to(self.root)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(files)
            if p.exists()
        }

    def leftovers(self) -> list[str]:
        """Return the remaining slots, and git's worktrees beside the main workspace."""
        found = self.git("worktree", "list", "--porcelain").count("worktree ") - 1
        return [str(p) for p in self.root.glob(".rapt/slots/*")] + ["worktree"] * found


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Prefect server for these tests: a start takes seconds, and an idle one works on."""
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield PREFECT_API_URL.value()


@pytest.fixture(scope="package")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the servers that flows start themselves: the first makes the database."""
    return tmp_path_factory.mktemp("prefect")


def make(
    root: Path, server: str, contents: dict[str, str] = FILES, *, top: Path | None = None
) -> Toy:
    """Make a toy at `root`, in a repository whose top is there or at `top`."""
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / ".rapt").mkdir(parents=True)
    toy = Toy(root, server)
    toy.git("init", "-q", str(top or root))
    toy.commit()
    return toy


@pytest.fixture
def toy(tmp_path: Path, server: str) -> Toy:
    return make(tmp_path, server)


@pytest.fixture(scope="package")
def reproduced(tmp_path_factory: pytest.TempPathFactory, server: str) -> Toy:
    """The toy after a serial `dvc repro`: to be copied, not changed."""
    toy = make(tmp_path_factory.mktemp("serial"), server)
    toy.serial()
    return toy


@pytest.fixture(scope="package")
def expected(reproduced: Toy) -> dict[str, str]:
    """The outcome of serial `dvc repro` on the toy."""
    return reproduced.outcome()


@pytest.fixture
def done(reproduced: Toy, tmp_path: Path) -> Toy:
    """A toy whose serial `dvc repro` is committed."""
    shutil.copytree(reproduced.root, tmp_path, symlinks=True, dirs_exist_ok=True)
    toy = Toy(tmp_path, reproduced.server)
    toy.commit()
    return toy


@pytest.fixture(scope="package")
def serial(tmp_path_factory: pytest.TempPathFactory, server: str) -> dict[str, str]:
    """The outcome of serial `dvc repro` on the toy with two sides."""
    toy = make(tmp_path_factory.mktemp("serial"), server, SIDES)
    toy.serial()
    return toy.outcome()
