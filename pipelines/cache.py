"""Damaged objects in DVC's cache: DVC trusts any that is read-only, whatever stands in it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rapt import files


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
        name, stat = path.parent.name + path.name, path.stat()
        state = [stat.st_size, stat.st_mtime_ns]
        if known.get(name) == state or _md5(path) == name.removesuffix(".dir"):
            whole[name] = state
        else:
            path.unlink()
            removed += 1
    files.write_json(seen, whole)
    return removed


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
