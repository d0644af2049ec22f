"""Repair of DVC's cache: damaged objects, which DVC would trust, and lost ones."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from ruamel.yaml import YAML

from rapt.utils import files

OUTS = ("data", "models", "reports")
# What DVC copies from its cache has such a name beside its own until it is whole.
COPYING = re.compile(r"\.[\w-]{22}\.tmp")
REST = re.compile(r"[0-9a-f]{30}(\.dir)?")  # an object's name without the two digits of its folder


def remove_partial(root: Path) -> None:
    """Remove what a killed DVC was copying: a stage that depends on its folder would read it."""
    for path in (path for out in OUTS for path in (root / out).rglob(".*.tmp")):
        if COPYING.fullmatch(path.name):
            path.unlink()


def remove_damaged(cache: Path, seen: Path) -> int:
    """Remove the objects whose hash is not their name, so that DVC makes them again.

    An object with the size and modification time of the last check, in the file `seen`, is not read
    again.

    Returns:
        the number of removed objects.
    """
    objects = cache / "files/md5"
    known = files.read_json(seen) if seen.exists() else {}
    whole: dict[str, list[int]] = {}
    removed = 0
    for path in sorted(objects.glob("??/*")):
        if not REST.fullmatch(path.name):  # another DVC process is writing it
            continue
        with suppress(FileNotFoundError):  # another DVC process has removed it
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
    """Leave only the commands in a dvc.lock of stages that lost outs, so that DVC can restore them.

    Where a stage's deps match its entry, DVC looks only for that entry's outs, and reruns the stage
    if they are lost. Yet a later run, with other bytes from another processor, may be cached, and
    every slot would run the stage anew. Without deps in the entry DVC asks the run-cache. It also
    reads and writes the whole file for each stage: of a fresh clone, seconds of a core each time.
    """
    yaml = YAML()  # round trip: keeps DVC's order, and makes no objects of other kinds
    content = (yaml.load(lock) if lock.exists() else None) or {}
    stages = content.get("stages", {})
    lost = [
        name
        for name, entry in stages.items()
        if any(_is_lost(out, lock.parent, cache) for out in entry.get("outs", []))
    ]
    for name in lost:
        stages[name] = {"cmd": stages[name]["cmd"]}  # keeps its place in the order
    if lost:
        with files.atomic(lock) as scratch:
            yaml.dump(content, scratch)


def same_inputs(*locks: str) -> bool:
    """Whether dvc.lock files differ at most in what stages made, not in what they started from."""
    first, *others = map(_inputs, locks)
    return all(other == first for other in others)


def _inputs(lock: str) -> dict[str, Any]:
    """Return each stage's command, params and those deps that no stage made."""
    stages = (YAML(typ="safe").load(lock) or {}).get("stages", {})
    outs = {PurePath(out["path"]) for entry in stages.values() for out in entry.get("outs", [])}
    around = {folder for out in outs for folder in out.parents}

    def is_made(path: PurePath) -> bool:
        return path in around or not outs.isdisjoint([path, *path.parents])

    return {
        name: (
            entry["cmd"],
            entry.get("params"),
            [dep for dep in entry.get("deps", []) if not is_made(PurePath(dep["path"]))],
        )
        for name, entry in stages.items()
    }


def _is_lost(out: dict[str, Any], workspace: Path, cache: Path) -> bool:
    """Whether an out is neither in the cache nor, as for uncached outs, in the workspace."""
    there = _is_cached(cache / "files/md5", str(out.get("md5", "")))
    return not there and not (workspace / out["path"]).exists()


def _is_cached(objects: Path, md5: str) -> bool:
    """Whether an object is in the cache; for a folder's, whether all that it lists are too."""
    path = objects / md5[:2] / md5[2:]
    if not md5.endswith(".dir") or not path.is_file():
        return path.is_file()
    return all(_is_cached(objects, entry["md5"]) for entry in files.read_json(path))


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
