"""Work for a flow on another machine: one stage of one snapshot, in a folder of its own.

A worker needs a checkout with this environment, and the DVC remote: `prefect worker start --pool
provider`. It fetches the snapshot by git and the stage's needs from the remote. The outs go to the
remote with their run-cache entry. Nothing upstream of the stage ever runs here.
"""

from __future__ import annotations

import fcntl
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import httpx
from prefect import flow
from ruamel.yaml import YAML

from pipelines import heartbeat
from pipelines.cache import remove_damaged
from pipelines.checkout import environment, forget_others, git, use_cache
from pipelines.reproduce import retried
from pipelines.served import Served
from rapt import paths
from rapt.utils import files
from rapt.utils.errors import RaptError

T = TypeVar("T")
# Seconds before each retry while a remote or Prefect's server is away: a minute and a half.
PAUSES = (2, 4, 8, 16, 32, 32)


@flow(name="stage", flow_run_name="{stage}", persist_result=False)
def work(repository: str, commit: str, stage: str, lock: dict[str, Any]) -> None:
    """Run a stage, and push what it makes; a log stays on this machine.

    Args:
        repository: the address that git fetches from.
        commit: the snapshot, which the ref `refs/rapt/COMMIT` holds there.
        stage: its name in DVC.
        lock: the stage's needs: entries of dvc.lock, of stages upstream.
    """
    with heartbeat.beating(), own_folder() as folder:
        patiently(lambda: _checkout(folder, repository, commit))
        remove_damaged(folder / ".dvc/cache", folder / paths.STATE / "cache.json")
        files.write_bytes(folder / "dvc.lock", [_lock_file(lock)])
        dvc = Served(folder, folder / paths.LOGS, environment(folder, folder))

        def run(step: str, *arguments: str, **variables: str) -> None:
            dvc.wake()
            dvc.run(f"{stage}.{step}", step, *arguments, **variables)

        if needs := [out["path"] for entry in lock.values() for out in entry["outs"]]:
            patiently(lambda: run("take", *needs))
        # A single item: if something upstream is missing, this fails rather than making it here.
        source = git(folder, "log", "-1", "--format=%b")

        @retried
        def reproduce() -> None:
            forget_others(folder)
            run("repro", "--single-item", stage, RAPT_COMMIT=source)

        reproduce()
        patiently(lambda: run("send", stage))
        dvc.kill()


def _lock_file(stages: dict[str, Any]) -> bytes:
    # Not as JSON, although that is YAML: DVC could not read it again after adding to it.
    text = io.BytesIO()
    YAML().dump({"schema": "2.0", "stages": stages}, text)
    return text.getvalue()


def patiently(call: Callable[[], T], pause: Callable[[float], object] = time.sleep) -> T:
    """Call, and retry after growing pauses: a remote or Prefect's server may be away for a minute.

    Not for a stage, whose retry would fail like the first attempt.
    """
    for seconds in PAUSES:
        try:
            return call()
        except (RaptError, httpx.HTTPError):
            pause(seconds)
    return call()


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a folder under .rapt/worker that no other run uses; later runs reuse its cache."""
    base = (paths.STATE / "worker").resolve()
    base.mkdir(parents=True, exist_ok=True)
    for number in count():
        with (base / f"{number}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield base / str(number)
            return


def _checkout(folder: Path, repository: str, commit: str) -> None:
    """Check the snapshot out into `folder`, which keeps its DVC cache."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "--quiet")
    git(folder, "fetch", "--quiet", "--depth", "1", repository, f"refs/rapt/{commit}")
    git(folder, "checkout", "--quiet", "--force", "--detach", commit)
    git(folder, "clean", "-ffdxq", "--exclude=/.rapt", "--exclude=/.dvc/cache")
    use_cache(folder, folder / ".dvc/cache")
