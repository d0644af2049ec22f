"""What DVC's cache lacks: damaged objects, which DVC would trust, and lost ones."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rapt.utils import files

REST = re.compile(r"[0-9a-f]{30}(\.dir)?")  # of an object's name, which begins with its folder's


def remove_damaged(cache: Path, seen: Path) -> int:
    """Remove the objects that are not what their names say, so that DVC makes them again.

    An object that is as it was when it was last read, by its size and time, is not read again.

    Args:
        cache: DVC's cache on this machine.
        seen: where what was read is kept; no folder of DVC's.

    Returns:
        how many were removed.
    """
    objects = cache / "files/md5"
    known = files.read_json(seen) if seen.exists() else {}
    whole: dict[str, list[int]] = {}
    removed = 0
    for path in sorted(objects.glob("??/*")):
        if not REST.fullmatch(path.name):  # a DVC elsewhere writes it under a temporary name
            continue
        with suppress(FileNotFoundError):  # a DVC elsewhere has removed it
            name, stat = path.parent.name + path.name, path.stat()
            state = [stat.st_size, stat.st_mtime_ns]
            if known.get(name) == state or _md5(path) == name.removesuffix(".dir"):
                whole[name] = state
            else:
                path.unlink()
                removed += 1
    files.write_json(seen, whole)
    return removed


def forget_lost(lock: Path, cache: Path) -> None:
    """Take out of a dvc.lock the outs of stages that have lost some, so that these may be restored.

    Where a stage's deps are as in its entry, DVC looks for the entry's own outs alone and runs the
    stage where they are lost, although it may have run since, to other bytes on another processor:
    every slot would run it anew. Without outs in its entry the run-cache is asked.

    Args:
        lock: the file, in the workspace that it is of.
        cache: DVC's cache on this machine.
    """
    yaml = YAML()
    content = (yaml.load(lock) if lock.exists() else None) or {}
    lost = [
        entry
        for entry in content.get("stages", {}).values()
        if any(_is_lost(out, lock.parent, cache) for out in entry.get("outs", []))
    ]
    for entry in lost:
        del entry["outs"]
    if lost:
        with files.atomic(lock) as scratch:
            yaml.dump(content, scratch)


def _is_lost(out: dict[str, Any], workspace: Path, cache: Path) -> bool:
    """Whether an out is neither in the cache nor, as what is not cached, in the workspace."""
    there = _is_cached(cache / "files/md5", str(out.get("md5", "")))
    return not there and not (workspace / out["path"]).exists()


def _is_cached(objects: Path, md5: str) -> bool:
    """Whether an object is there, and with a folder's all that it names."""
    path = objects / md5[:2] / md5[2:]
    if not md5.endswith(".dir") or not path.is_file():
        return path.is_file()
    return all(_is_cached(objects, entry["md5"]) for entry in files.read_json(path))


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
