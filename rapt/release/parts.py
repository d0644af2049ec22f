"""Finished parts of a release, after which a killed run resumes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, Timeout

from rapt.privacy.fates import COUNTS, Counts
from rapt.utils.errors import RaptError
from rapt.utils.files import read_json, write_bytes

PRIVATE = 0o600


class Unreachable(RaptError):
    """What cannot be read or written now: parts stay, and the same command may go on later."""


class Parts:
    """The folders OUT.parts and, for a map, FILE.parts, which hold parts until all are there.

    The parts of the map contain original words. They are beside the map's path and as private.
    """

    def __init__(self, out: Path, map: Path | None = None) -> None:
        """Name the folders; see `opened`."""
        self.folder = beside(out, ".parts")
        self._manifest = self.folder / "manifest.json"
        self._map = map
        self._maps = beside(map, ".parts") if map else None

    @property
    def begun(self) -> bool:
        """Whether there is an unfinished run."""
        return self._manifest.exists()

    @property
    def id(self) -> str:
        """The id of the begun release."""
        return (self.folder / "id").read_text()

    @contextmanager
    def opened(self, identity: Mapping[str, Any], resumable: bool) -> Iterator[Parts]:
        """Start a release or resume it, one run at a time.

        Args:
            identity: input and options, as JSON.
            resumable: whether the input can be read again.

        Raises:
            RaptError: existing parts come from another input or other options, or another run is
                working on them.
        """
        # Private: the counts of each part reveal more than the release.
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps(identity).encode()
        try:
            with FileLock(self.folder / "lock", timeout=0):
                if not resumable:
                    for number in self._numbers():
                        self._counts(number).unlink()
                if self.begun:
                    self._check(json.loads(content))
                if not (self.begun and resumable):  # nothing of another release goes into this
                    write_bytes(self.folder / "id", [uuid4().hex.encode()])
                    if self._maps and self._maps.exists():
                        shutil.rmtree(self._maps)
                if self._maps:
                    self._maps.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_bytes(self._manifest, [content])
                yield self
        except Timeout:
            raise RaptError(
                f"{self.folder}: got another run that writes it, expected none. Wait for its end."
            ) from None

    def __contains__(self, number: int) -> bool:
        return self._counts(number).exists()

    def add(self, number: int, content: bytes, map: bytes, counts: Counts) -> None:
        """Store a part; its counts are written last and mark it as complete."""
        write_bytes(self._content(number), [content])
        if self._maps:
            write_bytes(self._maps / f"{number:06}", [map], PRIVATE)
        write_bytes(self._counts(number), [COUNTS.dump_json(counts)])

    def counts(self) -> Counts:
        """Return the counts of all parts."""
        total = Counts()
        for number in self._numbers():
            total.update(COUNTS.validate_json(self._counts(number).read_bytes()))
        return total

    def contents(self) -> Iterator[Path]:
        """Return the paths of the parts, in order."""
        return (self._content(number) for number in self._numbers())

    def join_map(self) -> None:
        """Make the map of all its parts; a run that was killed meanwhile may do it again."""
        if not (self._map and self._maps and self._maps.exists()):
            return
        whole = self._maps / "whole"
        parts = sorted(self._maps.glob("[0-9]*[0-9]"), key=lambda part: int(part.name))
        if parts and not whole.exists():
            write_bytes(whole, (part.read_bytes() for part in parts), PRIVATE)
        for part in parts:
            part.unlink()
        if whole.exists():  # else it was moved before
            os.replace(whole, self._map)
        shutil.rmtree(self._maps)

    def remove(self, *, map: bool = True) -> None:
        """Remove the folders, or all but that of the map."""
        for folder in (self._maps if map else None, self.folder):
            if folder and folder.exists():
                shutil.rmtree(folder)

    def _check(self, identity: Mapping[str, Any]) -> None:
        begun = read_json(self._manifest)
        changed = [key for key in identity if begun.get(key) != identity[key]]
        if changed:
            raise RaptError(
                f"{self.folder}: got another {', '.join(changed)}, expected that of the begun "
                "release. Remove this folder, and the map's .parts if any, to begin anew."
            )

    def _numbers(self) -> range:
        return range(len(list(self.folder.glob("[0-9]*.json"))))

    def _content(self, number: int) -> Path:
        return self.folder / f"{number:06}"

    def _counts(self, number: int) -> Path:
        return self.folder / f"{number:06}.json"


def beside(path: Path, suffix: str) -> Path:
    """Return the path with a suffix appended to its name."""
    return path.with_name(path.name + suffix)
