"""The demo on a pool of workers: `python -m benchmarks.pool` writes evidence/pool.json.

The user and each worker have a folder on this machine, with its own clone and caches. They share
only a Prefect server, a git repository and a DVC remote, as in docs/scaling.md. The last commit is
run from scratch. This takes longer than `make benchmark` and is not part of it. The user's folder
is kept, with the dvc.lock and the figures of the run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from dvc.utils.serialize import load_yaml

from benchmarks.run import machine
from pipelines.server import ADDRESS
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.process import tethered

DVC = (sys.executable, "-m", "dvc")
PREFECT = (sys.executable, "-m", "prefect")
FLOW = (sys.executable, "-m", "pipelines", "--pool", "provider")
# Folders that must never reach the provider.
PRIVATE = ("data/raw", "data/tagged", "models/attackers")
OUTCOME = ("dvc.lock", "reports/metrics.json")
HELD = ("data", "models", "reports")
START = 180  # seconds that a server may take


def main(
    workers: int = 3,
    slots: Annotated[int, typer.Option(help="Of the user's machine.")] = 2,
    port: Annotated[int, typer.Option(help="Of the Prefect server.")] = 4210,
    folder: Annotated[Path, typer.Option(help="Of its own files; new.")] = Path(".rapt/pool"),
) -> None:
    """Set up a pool of workers, run the demo on it and write evidence/pool.json."""
    folder.mkdir(parents=True)
    folder = folder.resolve()
    user, repository = folder / "user", folder / "shared.git"
    _run(Path(), "git", "clone", "--quiet", "--bare", ".", repository)
    _run(folder, "git", "clone", "--quiet", repository, user)
    _run(user, *DVC, "remote", "add", "--default", "shared", folder / "remote")
    os.environ["PREFECT_HOME"] = str(folder / "prefect")
    with _until_done(user, sys.executable, "-m", "pipelines.server", "--port", port):
        os.environ["PREFECT_API_URL"] = _address(user)
        _run(user, *PREFECT, "work-pool", "create", "provider", "--type", "process")
        _run(user, *PREFECT, "--no-prompt", "deploy", "--all")
        names = [f"worker-{number + 1}" for number in range(workers)]
        with ExitStack() as working:
            for name in names:
                _run(folder, "git", "clone", "--quiet", repository, name)
                worker = (*PREFECT, "worker", "start", "--pool", "provider", "--limit", 1)
                working.enter_context(_until_done(folder / name, *worker, "--name", name))
            start = time.perf_counter()
            _run(user, *FLOW, "--slots", slots, stdout=None)
            seconds = time.perf_counter() - start
    found = {
        "machine": machine(),
        "commit": _run(user, "git", "rev-parse", "HEAD").strip(),
        "seconds": round(seconds),
        "load_average": round(os.getloadavg()[2], 1),  # of 15 minutes
        "slots": slots,
        "stages": len(load_yaml(user / "dvc.lock")["stages"]),
        "workers": {name: _account(folder / name, user) for name in names},
        "up_to_date_afterwards": "up to date" in _run(user, *DVC, "repro"),
        "sha256": {name: files.sha256(user / name) for name in OUTCOME},
    }
    files.write_json("evidence/pool.json", found)
    print(f"evidence/pool.json; the run's dvc.lock and figures are in {user}")


def _account(worker: Path, user: Path) -> dict[str, Any]:
    """Return the stages a worker ran, the outs it holds, and its number of private files."""
    own = worker / ".rapt/worker"
    ran = sorted(
        log.name.removesuffix(".repro.log") for log in own.glob("*/.rapt/logs/*.repro.log")
    )
    held = {
        "/".join(path.relative_to(folder).parts[:4])
        for folder in own.iterdir()
        if folder.is_dir()
        for top in HELD
        for path in (folder / top).rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    objects = {path.parent.name + path.name for path in own.glob("*/.dvc/cache/files/md5/*/*")}
    private = {
        hashlib.md5(path.read_bytes()).hexdigest()
        for top in PRIVATE
        for path in (user / top).rglob("*")
        if path.is_file()
    }
    return {"ran": ran, "holds": sorted(held), "private_files": len(objects & private)}


@contextmanager
def _until_done(folder: Path, *command: object) -> Iterator[None]:
    """Run a server or a worker in `folder` during the block; its log is beside the folder."""
    with folder.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            tethered(*map(str, command)), cwd=folder, env=_at(folder), stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.kill()  # an idle Prefect worker sometimes ignores a request to end
        process.wait()


def _address(user: Path) -> str:
    """Wait for the server and return its address."""
    end = time.monotonic() + START
    while time.monotonic() < end:
        if (user / ADDRESS).exists():
            return (user / ADDRESS).read_text().strip()
        time.sleep(1)
    raise RaptError(f"no Prefect server after {START} s; its log: {user}.log")


def _run(folder: Path, *command: object, stdout: int | None = subprocess.PIPE) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=_at(folder), stdout=stdout, text=True, check=True
    )
    return done.stdout or ""


def _at(folder: Path) -> dict[str, str]:
    """Return an environment in which Python imports the code in `folder`."""
    return os.environ | {"PYTHONPATH": str(folder)}


if __name__ == "__main__":
    typer.run(main)
