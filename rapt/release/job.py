"""Privatization of a file: checked in advance, resumable and atomic."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rapt import __version__
from rapt.privacy.statement import plain_words
from rapt.release.formats import STREAM, Chunk, Format
from rapt.release.parts import PRIVATE, Parts, beside
from rapt.release.statement import Counts, statement
from rapt.release.text import Released, TextPrivatizer
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.files import write_bytes
from rapt.utils.progress import counter

Progress = Callable[[int], object]  # called with the number of documents just done


@dataclass(frozen=True)
class Job:
    """A file to privatize.

    Attributes:
        source: the input, and its format for reading and writing.
        out: path of the release; `-` is the standard output.
        map: path of the map that restores the originals; None: no map.
        overwrite: whether `out` and `map` may exist.
        stream: prefix of the names of its random streams, if there is an insecure seed.
    """

    source: Format
    out: Path
    map: Path | None = None
    overwrite: bool = False
    stream: tuple[str, ...] = ()

    def check(self) -> None:
        """Check the paths.

        Raises:
            RaptError: the input does not exist, or an output exists or is also the input.
        """
        path = self.source.path
        if path != STREAM and not path.exists():
            raise RaptError(f"{path}: no such file")
        named = [place for place in (path, self.out, self.map) if place and place != STREAM]
        if len({place.resolve() for place in named}) < len(named):
            raise RaptError("IN, OUT and the map are one file twice: it would overwrite itself")
        begun = self.out != STREAM and Parts(self.out).begun
        for place in (self.out, *([self.map] if self.map and not begun else [])):
            if place != STREAM and place.exists() and not (self.overwrite and place.is_file()):
                raise RaptError(f"{place}: exists; give --overwrite to replace it (a file only)")

    def run(self, privatizer: TextPrivatizer) -> Counts:
        """Privatize the file and write its privacy statement beside it.

        Raises:
            RaptError: the input is invalid.
        """
        with counter("privatizing", self.read(), "documents") as progress:
            if self.out == STREAM:
                return self._to_stream(privatizer, progress.update)
            columns = self.source.columns
            return self.release(
                privatizer,
                lambda counts: write_statement(self.out, statement(privatizer, columns, counts)),
                progress.update,
            )

    def read(self) -> int | None:
        """Count the documents; None: the input is a stream, which can be read only once.

        A file is read to its end before its first word is privatized, so that an error in its last
        line does not show up after hours.

        Raises:
            RaptError: the input is invalid.
        """
        if not self.source.is_file:
            return None
        documents = sum(chunk.size for chunk in self.source.chunks())
        self._check_rows(documents)
        return documents

    def release(
        self, privatizer: TextPrivatizer, describe: Callable[[Counts], None], progress: Progress
    ) -> Counts:
        """Privatize the file in parts, and make the release of them.

        Args:
            privatizer: the noise and its options.
            describe: writes what the release must not be without, before it is in place.
            progress: called for each part.

        Raises:
            RaptError: the input is invalid, or changed meanwhile.
        """
        parts, identity, documents = Parts(self.out, self.map), self._identity(privatizer), 0
        with parts.opened(identity, self.source.is_file):
            for chunk in self.source.chunks():
                if chunk.number not in parts:
                    parts.add(chunk.number, *self._privatized(privatizer, chunk, documents))
                documents += chunk.size
                progress(chunk.size)
            self._check_rows(documents)
            if self._identity(privatizer) != identity:
                parts.remove()
                raise RaptError(f"{self.source.where}: changed while it was read; try again")
            counts = parts.counts()
            describe(counts)
            parts.join_map()
            whole = parts.folder / "whole"
            self.source.join(parts.contents(), whole)
            os.replace(whole, self.out)
            parts.remove()
        return counts

    def _to_stream(self, privatizer: TextPrivatizer, progress: Progress) -> Counts:
        total = Counts()
        with _private(self.map, self.overwrite) if self.map else nullcontext() as map_file:
            for chunk in self.source.chunks():
                content, map, counts = self._privatized(privatizer, chunk, total.documents)
                if map_file:
                    map_file.write(map)
                sys.stdout.buffer.write(content)
                sys.stdout.buffer.flush()
                total.update(counts)
                progress(chunk.size)
        self._check_rows(total.documents)
        sys.stderr.write(plain_words(statement(privatizer, self.source.columns, total)))
        return total

    def _privatized(
        self, privatizer: TextPrivatizer, chunk: Chunk, start: int
    ) -> tuple[bytes, bytes, Counts]:
        """Privatize a chunk; return its parts of the release and of the map, and its counts."""
        released = {
            column: privatizer.release(
                [text or "" for text in texts], *self.stream, chunk.number, column
            )
            for column, texts in chunk.texts.items()
        }
        counts = Counts(others=set(chunk.others))
        for document in zip(*released.values(), strict=True):
            counts.add(document)
        new = {
            column: [
                None if before is None else after.text(privatizer.keep_spacing)
                for before, after in zip(chunk.texts[column], texts, strict=True)
            ]
            for column, texts in released.items()
        }
        map = _map_lines(released, start) if self.map else ""
        return chunk.encode(new), map.encode(), counts

    def _identity(self, privatizer: TextPrivatizer) -> dict[str, object]:
        source = self.source
        digest = files.sha256(source.path) if source.is_file else None
        return settings(privatizer, source, self.map) | {"input": digest}

    def _check_rows(self, documents: int) -> None:
        if not documents:
            raise RaptError(f"{self.source.where}: holds no rows")


def settings(privatizer: TextPrivatizer, source: Format, map: Path | None) -> dict[str, object]:
    """Return all settings that determine a release, as JSON; its parts must share them.

    Noise is fresh each time, except with an insecure seed.
    """
    return asdict(privatizer) | {
        "table": privatizer.privatizer.table.sha256,
        "format": type(source).__name__,
        "columns": source.columns,
        "drop_others": source.drop_others,
        "keep_map": map and str(map.resolve()),
        "version of rapt": __version__,
    }


def write_statement(out: Path, content: dict[str, Any]) -> None:
    """Write a release's privacy statement beside it, as JSON and in plain words."""
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_bytes(beside(out, ".privacy.json"), [text.encode()])
    write_bytes(beside(out, ".privacy.txt"), [plain_words(content).encode()])


def _map_lines(released: dict[str, list[Released]], start: int) -> str:
    """Return the map that restores the originals: a line of JSON for each changed word."""
    lines = []
    for column, texts in released.items():
        for document, text in enumerate(texts, start):
            for word, (before, after) in enumerate(zip(text.originals, text.words, strict=True)):
                if before != after:
                    line = {
                        "document": document,
                        "column": column,
                        "word": word,
                        "original": before,
                        "released": after,
                    }
                    lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines)


def _private(path: Path, overwrite: bool) -> BinaryIO:
    """Open a new file that only its owner may read, from the first byte on."""
    if overwrite:
        path.unlink(missing_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb")
