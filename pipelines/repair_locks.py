"""Repair of DVC's lock record after DVC was killed: `python -m pipelines.repair_locks`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil

from pipelines.dvc_api import DvcException, opened_record
from rapt.utils import files
from rapt.utils.process import no_telemetry


def repair(root: Path) -> set[int]:
    """Remove killed processes from DVC's record of which process reads and writes what.

    DVC itself drops a process that is gone. It waits for a zombie, as in a container whose first
    process reaps none, and for another process that has reused the id. A record that was only
    partly written is deleted, as DVC cannot read it. DVC's own lock keeps other writers out.

    Returns:
        the ids of the processes that are writing this project's outs.
    """
    with opened_record(root) as record:
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
    """Whether the process that recorded its id by the time `written` still runs."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() < written
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    no_telemetry()
    try:
        repair(Path())
    except DvcException as error:
        sys.exit(f"dvc: {' '.join(str(error).split())}")
