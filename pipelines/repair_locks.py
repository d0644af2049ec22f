"""What a killed DVC left behind, mended: `python -m pipelines.repair_locks`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
from dvc.exceptions import DvcException
from dvc.lock import make_lock
from dvc.repo import Repo
from dvc.rwlock import RWLOCK_FILE, RWLOCK_LOCK

from rapt.utils import files
from rapt.utils.process import no_telemetry


def mend(root: Path) -> set[int]:
    """Take what a killed DVC left out of DVC's record of who reads and writes what.

    DVC forgets a process that is gone, but waits for one that nobody buries, as in a container
    whose first process reaps none, and for another that has its number since. Of a record that it
    was killed in the middle of it can read nothing. Under DVC's own lock, nobody else writes it.

    Returns:
        the ids of the processes that write this project's outs now.
    """
    with Repo(str(root)) as repo:
        record, hardlink = Path(repo.tmp_dir, RWLOCK_FILE), repo.config["core"]["hardlink_lock"]
        lock = str(record.with_name(RWLOCK_LOCK))
        with make_lock(lock, tmp_dir=repo.tmp_dir, hardlink_lock=hardlink):
            return _keep_living(record) if record.exists() else set()


def _keep_living(record: Path) -> set[int]:
    written = record.stat().st_mtime
    try:
        held = json.loads(record.read_text())
    except ValueError:
        record.unlink()
        return set()
    write, read = held.get("write", {}), held.get("read", {})
    living = {
        "write": {path: by for path, by in write.items() if _runs(by["pid"], written)},
        "read": {
            path: [by for by in all_ if _runs(by["pid"], written)] for path, all_ in read.items()
        },
    }
    files.write_bytes(record, [json.dumps(living).encode()])
    return {by["pid"] for by in living["write"].values()}


def _runs(pid: int, written: float) -> bool:
    """Whether the process that wrote its number down then is still at work."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() < written
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    no_telemetry()
    try:
        mend(Path())
    except DvcException as error:
        sys.exit(f"dvc: {' '.join(str(error).split())}")
