"""Removing what cells have left that are no longer planned."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import typer

from rapt.utils import files
from rapt.utils.errors import RaptError

LOCK = Path("dvc.lock")


def clean() -> None:
    """Remove the outs and the dvc.lock entries of stages that dvc.yaml no longer has."""
    from ruamel.yaml import YAML

    if not LOCK.is_file():
        raise RaptError("dvc.lock: got no such file, expected that of a run. Next: dvc repro")
    # Round trip, as DVC writes: the bytes of what stays are the same, and no objects are made.
    yaml = YAML()
    lock = yaml.load(LOCK)
    locked = lock["stages"]
    live = _stages()
    kept = {out["path"] for stage in live & set(locked) for out in locked[stage].get("outs", ())}
    dead = {
        s: [out["path"] for out in e.get("outs", ())] for s, e in locked.items() if s not in live
    }
    # An out may lie within one that a live stage makes as a whole, or hold one.
    above = {str(parent) for path in kept for parent in Path(path).parents}
    removed = sorted(
        path
        for path in {path for paths in dead.values() for path in paths} - above
        if not kept & {path, *map(str, Path(path).parents)}
    )
    for path in removed:
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)
    for stage in dead:
        del locked[stage]
    with files.atomic(LOCK) as scratch:
        yaml.dump(lock, scratch)
    for path in removed:
        typer.echo(f"removed {path}")


def _stages() -> set[str]:
    """The names of the stages in dvc.yaml."""
    command = [sys.executable, "-m", "dvc", "stage", "list", "--name-only"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise RaptError(listed.stderr.strip().splitlines()[-1])
    return set(listed.stdout.split())
