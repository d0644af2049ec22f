"""The files that git tracks and a flow writes when it collects, as they were before.

DVC writes them in place, one stage after the other. What was broken off is taken back, so that git
sees all of a flow's end or nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rapt.utils import files

FOLDER = Path(".rapt/before")
OUTS = ("data", "models", "reports")
# What DVC copies from its cache has such a name beside its own until it is whole.
COPYING = re.compile(r"\.[\w-]{22}\.tmp")
NAMES = "names.json"  # where each file is kept; null: it was not there
SECONDS_BETWEEN_SIGNS = 0.5
# By how much a file may be newer than the last sign, and yet be written by the flow itself.
GRACE = 2.0


@contextmanager
def kept(root: Path, names: Iterable[str]) -> Iterator[None]:
    """Keep files of the project at `root` in this block, and give them back if it fails.

    If this process is killed, `give_back` does that later.
    """
    _keep(root, names)
    try:
        with _signs(root / FOLDER / NAMES):
            yield
    except BaseException:
        (root / FOLDER / NAMES).touch()
        give_back(root)
        raise
    shutil.rmtree(root / FOLDER)


def give_back(root: Path) -> None:
    """Give files the content they had, if their block did not end.

    One that was written after the last sign of that block stays: the user has gone on without it.
    What DVC was copying then goes: a stage that depends on its folder would take it for a file.
    """
    folder = root / FOLDER
    if (folder / NAMES).exists():
        for part in (p for out in OUTS for p in (root / out).rglob(".*.tmp")):
            if COPYING.fullmatch(part.name):
                part.unlink()
        last = (folder / NAMES).stat().st_mtime
        for name, place in files.read_json(folder / NAMES).items():
            path = root / name
            if path.exists() and path.stat().st_mtime > last + GRACE:
                continue
            if place is None:
                path.unlink(missing_ok=True)
            elif (folder / place).exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                os.replace(folder / place, path)
    shutil.rmtree(folder, ignore_errors=True)


def _keep(root: Path, names: Iterable[str]) -> None:
    folder = root / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    places: dict[str, str | None] = {}
    for number, name in enumerate(names):
        places[name] = str(number) if (root / name).is_file() else None
        if place := places[name]:
            shutil.copy2(root / name, folder / place)
    files.write_json(folder / NAMES, places)  # last: it says that all are there


@contextmanager
def _signs(path: Path) -> Iterator[None]:
    """Touch a file now and then, so that its time tells how long this process has lived."""
    ended = threading.Event()

    def sign() -> None:
        while not ended.wait(SECONDS_BETWEEN_SIGNS):
            path.touch()

    thread = threading.Thread(target=sign, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
