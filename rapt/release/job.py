"""Privatization of a file or a folder of them: checked in advance, resumable and atomic."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from uuid import uuid4

import pyarrow.parquet as pq
from pydantic import TypeAdapter

from rapt import __version__
from rapt.data.config import SUFFIXES, Format
from rapt.data.read import TEXT
from rapt.measures.statement import plain_words
from rapt.privacy.fates import Counts, Word
from rapt.release.formats import FORMATS, STREAM, Chunk, TextFile
from rapt.release.ledger import Account, OverBudget
from rapt.release.parts import PRIVATE, Parts, Unreachable, beside
from rapt.release.statement import statement
from rapt.release.text import TextPrivatizer, joined
from rapt.utils.errors import RaptError
from rapt.utils.files import write_bytes
from rapt.utils.progress import Steps

# Called with the size of a part, in documents, and whether an earlier run did it.
Progress = Callable[[int, bool], object]

FOLDER = "parquet"  # the format of the files in a folder
IGNORED = (".", "_")  # what names begin with that no reader of Parquet takes for data: _SUCCESS


@dataclass(frozen=True)
class Done:
    """Kept beside a finished file: its input's digest, its counts, and its id in the ledger."""

    input: str | None
    counts: Counts
    id: str


DONE = TypeAdapter(Done)


class Content(NamedTuple):
    """What was found on reading a file to its end. A stream is read once, so it has none of it.

    Attributes:
        documents: number of its rows.
        digest: of all that decides its texts.
        state: its identity, size and time before it was read.
    """

    documents: int | None
    digest: str | None
    state: tuple[int, ...] | None


OF_A_STREAM = Content(None, None, None)


@dataclass(frozen=True)
class Job:
    """A file to privatize, or a folder of Parquet files to one with files of the same names.

    `release` is the unit of work: any process may do it for any of the files, in any order, and
    again if it was killed. What is finished lies in OUT.parts until `finish` makes OUT of it.

    Attributes:
        path: the file or folder to read; `-` is the standard input.
        out: the file or folder to write; `-` is the standard output.
        format: how files are read and written.
        columns: what to privatize, in every file.
        keep: further columns that are released as they are; None: all there are.
        map: where the map goes that restores the originals, of a folder one for each file; None:
            no map.
        overwrite: whether `out` and `map` may exist.
    """

    path: Path
    out: Path
    format: Format
    columns: tuple[str, ...] = (TEXT,)
    keep: tuple[str, ...] | None = ()
    map: Path | None = None
    overwrite: bool = False
    _read: dict[str, Content] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def is_folder(self) -> bool:
        """Whether a folder is privatized."""
        return self.path.is_dir()

    @cached_property
    def names(self) -> list[str]:
        """The files, in order.

        Raises:
            RaptError: something else lies in the folder, or nothing.
        """
        if not self.is_folder:
            return [self.path.name]
        names = sorted(n for n in os.listdir(self.path) if not n.startswith(IGNORED))
        _check_parquet(self.path, names)
        if not names:
            raise RaptError(f"{self.path}: got an empty folder, expected Parquet files.")
        return names

    def check(self) -> None:
        """Check the paths, and of each file in a folder its columns and its first rows.

        Raises:
            RaptError: the input does not exist or has another form than expected. Or an output
                exists already, or would lie within the input.
        """
        if self.path != STREAM and not self.path.exists():
            raise RaptError(f"{self.path}: got no such file, expected a file or a folder.")
        if self.is_folder and self.out == STREAM:
            raise RaptError(f"OUT: got -, expected a folder, as {self.path} is one.")
        if self.out == STREAM and self.format.type == FOLDER:  # whose parts are no file in a row
            raise RaptError(f"OUT: got - with format {FOLDER}, expected a file. Give its path.")
        named = [place for place in (self.path, self.out, self.map) if place and place != STREAM]
        for one, other in permutations([place.resolve() for place in named], 2):
            if one == other or one in other.parents:
                raise RaptError(
                    "IN, OUT and the map: got one file twice, or folders that lie in one another, "
                    "expected separate ones."
                )
        self._check_overwriting()
        if self.is_folder:
            for name in self.names:
                next(self._source(name).chunks())
            if not self.documents():
                raise RaptError(f"{self.path}: got no rows in its files, expected one or more.")

    def _check_overwriting(self) -> None:
        places = [] if self.out == STREAM or self._is_moved() else [self.out]
        if self.map and (self.out == STREAM or not self._parts.begun):
            places.append(self.map)
        kind = "folder" if self.is_folder else "file"
        for place in places:
            is_alike = place.is_dir() if self.is_folder else place.is_file()
            if place.exists() and not (self.overwrite and is_alike):
                got = "folder" if place.is_dir() else "file"
                raise RaptError(
                    f"{place}: got an existing {got}, expected a new path. --overwrite replaces a "
                    f"{kind} only."
                )
        if self.is_folder and self.out.exists():
            _check_parquet(self.out, os.listdir(self.out))  # nothing else is ever removed

    def texts(self) -> Iterator[str]:
        """Yield every text to privatize, as it is."""
        for name in self.names:
            for chunk in self._source(name).chunks():
                yield from (text or "" for texts in chunk.texts.values() for text in texts)

    def run(self, privatizer: TextPrivatizer) -> Counts:
        """Privatize the files, one after the other, and write the statement beside the release.

        Raises:
            RaptError: a file is not what it should be.
        """
        privatizer.account().check()
        with Steps("privatizing", self.documents(), "document") as progress:
            if self.out == STREAM:
                return self._to_stream(privatizer, progress.update)
            with self.opened(privatizer):
                for name in self.names:
                    self.release(name, privatizer, progress.update)
                return self.finish(privatizer)

    @contextmanager
    def opened(self, privatizer: TextPrivatizer) -> Iterator[None]:
        """Begin the release, or go on with it; one run at a time.

        Raises:
            RaptError: it was begun with other options or other files, or another run works on it.
        """
        identity = self._settings(privatizer)
        if self.is_folder:
            identity["list of files"] = self.names
        else:
            identity["input"] = self._content(self.path.name).digest
        resumable = self.is_folder or self._source(self.path.name).is_file
        with self._parts.opened(identity, resumable):
            if self._is_moved():
                os.replace(self.out, self._whole)
            self._files.mkdir(exist_ok=True)
            if self.is_folder and self.map:
                self.map.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                yield
            except Exception:  # whatever it is goes on: what is unfinished would block the next run
                done = {path.name for path in self._parts.folder.rglob("*.json")}
                if done <= {"manifest.json"}:  # nothing is
                    self._remove()
                raise

    def release(
        self, name: str, privatizer: TextPrivatizer, progress: Progress = lambda *_: None
    ) -> Counts:
        """Privatize one of the files, unless that is done.

        Raises:
            RaptError: it is not what it should be, or is not what it was when it was privatized.
        """
        source = self._source(name)
        if not ((self._files / name).exists() and source.is_file):
            self._content(name)
            return self._release(name, privatizer, progress)
        if not self._is_done(name):
            raise RaptError(
                f"{source.where}: got another content than when it was privatized, expected the "
                f"same. Remove {self._parts.folder} to begin anew."
            )
        self._parts_of(name).remove(map=False)  # killed before it could
        counts = self._done(name).counts
        progress(counts.documents, True)
        return counts

    def finish(self, privatizer: TextPrivatizer) -> Counts:
        """Make the release of its files, all of which are done: where it is, its statement is.

        Raises:
            OverBudget: a text would lose more than it may, now that all parts count.
        """
        counts, done = Counts(), [self._done(name) for name in self.names]
        for one in done:
            counts.update(one.counts)
        account = privatizer.account()
        if account.ledger:
            try:
                account.ledger.settle([one.id for one in done], account.budget)
            except OverBudget:
                self._remove()
                raise
        for name in self.names:  # after the last refusal: it may replace an old map
            self._parts_of(name).join_map()
        write_statement(self.out, statement(privatizer, self.columns, counts))
        if self.out.is_dir():
            shutil.rmtree(self.out)
        os.replace(self._whole, self.out)
        self._parts.remove()
        return counts

    def documents(self) -> int | None:
        """Count the documents; None: the input is a stream, which can be read only once."""
        if self.is_folder:
            return sum(pq.read_metadata(self.path / name).num_rows for name in self.names)
        return self._content(self.path.name).documents

    def _content(self, name: str) -> Content:
        """Read a file to its end before its first word is privatized, unless that was done.

        So an error in its last line does not show up after hours.
        """
        source = self._source(name)
        if not source.is_file:
            return OF_A_STREAM
        state = _state(source.path)
        if name not in self._read or self._read[name].state != state:
            documents = sum(chunk.size for chunk in source.chunks())
            self._check_rows(source, documents)
            self._read[name] = Content(documents, source.digest, state)
        return self._read[name]

    def _check_rows(self, source: TextFile, documents: int) -> None:
        if not (documents or self.is_folder):  # one of many files may have no rows
            raise RaptError(f"{source.where}: got no rows, expected one or more.")

    def _release(self, name: str, privatizer: TextPrivatizer, progress: Progress) -> Counts:
        """Privatize a file in parts, write its digest and counts, then join the parts."""
        source, parts, documents = self._source(name), self._parts_of(name), 0
        content = self._content(name)
        with parts.opened({"input": content.digest}, source.is_file), _removed_if_refused(parts):
            for chunk in source.chunks():
                is_done = chunk.number in parts
                if not is_done:
                    account = privatizer.account(parts.id, pending=True)
                    made = self._privatized(privatizer, name, chunk, documents, account)
                    parts.add(chunk.number, *made)
                documents += chunk.size
                progress(chunk.size, is_done)
            self._check_rows(source, documents)
            digest = source.digest
            if source.is_file and _state(source.path) != content.state:
                again = self._source(name)  # touched, or appended to after it was read
                for _ in again.chunks():
                    pass
                digest = again.digest
            if digest != content.digest:
                raise RaptError(
                    f"{source.where}: got changes while it was read, expected none. Try again."
                )
            counts = parts.counts()
            write_bytes(self._note(name), [DONE.dump_json(Done(content.digest, counts, parts.id))])
            whole = parts.folder / "whole"
            source.join(parts.contents(), whole)
            os.replace(whole, self._files / name)
            parts.remove(map=False)
        return counts

    def _to_stream(self, privatizer: TextPrivatizer, progress: Progress) -> Counts:
        total, source, release = Counts(), self._source(self.path.name), uuid4().hex
        with _private(self.map, self.overwrite) if self.map else nullcontext() as map_file:
            for chunk in source.chunks():
                account = privatizer.account(release)
                content, map, counts = self._privatized(
                    privatizer, source.path.name, chunk, total.documents, account
                )
                if map_file:
                    map_file.write(map)
                sys.stdout.buffer.write(content)
                sys.stdout.buffer.flush()
                total.update(counts)
                progress(chunk.size, False)
        self._check_rows(source, total.documents)
        sys.stderr.write(plain_words(statement(privatizer, self.columns, total)))
        return total

    def _privatized(
        self, privatizer: TextPrivatizer, name: str, chunk: Chunk, start: int, account: Account
    ) -> tuple[bytes, bytes, Counts]:
        """Privatize a chunk; return its parts of the release and of the map, and its counts."""
        names = (name, chunk.number) if self.is_folder else (chunk.number,)
        released = {
            column: privatizer.release(
                [text or "" for text in texts], *names, column, account=account
            )
            for column, texts in chunk.texts.items()
        }
        spent = account.spent
        counts = Counts(others=set(chunk.others), again=spent.again, halves=chunk.halves)
        counts.nats, counts.times = spent.most, spent.times
        documents = [*chunk.documents(released)]
        for document in documents:
            counts.add([text for _, texts in document for text in texts])
        new = {
            column: [
                None if before is None else joined(after, privatizer.keep_spacing)
                for before, after in zip(chunk.texts[column], texts, strict=True)
            ]
            for column, texts in released.items()
        }
        map = _map_lines(documents, start) if self.map else ""
        return chunk.encode(new), map.encode(), counts

    def _settings(self, privatizer: TextPrivatizer) -> dict[str, object]:
        """Return all that determines a release, as JSON; its parts must share it.

        Noise is fresh each time, except with an insecure seed.
        """
        return asdict(privatizer) | {
            "budget": None,  # a larger one lets a begun release go on
            "table": privatizer.privatizer.table.sha256,
            "format": self.format.model_dump(),
            "columns": self.columns,
            "kept columns": None if self.keep is None else list(self.keep),
            "keep_map": self.map and str(self.map.resolve()),
            "version of rapt": __version__,
        }

    def _is_moved(self) -> bool:
        """Whether the release is in place of a run that was killed before it removed its parts."""
        is_open = self._whole.exists() or any(self._files.glob("*.parts"))
        moved = self._parts.begun and self.out.exists() and not is_open
        return moved and all(self._is_done(name) for name in self.names)

    def _is_done(self, name: str) -> bool:
        """Whether a file was finished, and is what it was then."""
        noted = self._source(name).is_file and self._note(name).exists()
        return noted and self._done(name).input == self._content(name).digest

    def _done(self, name: str) -> Done:
        return DONE.validate_json(self._note(name).read_bytes())

    def _source(self, name: str) -> TextFile:
        path = self.path / name if self.is_folder else self.path
        return FORMATS[self.format.type](path, self.columns, self.keep, self.format)

    @property
    def _parts(self) -> Parts:
        return Parts(self.out)

    @property
    def _files(self) -> Path:
        return self._parts.folder / "files"

    @property
    def _whole(self) -> Path:
        """The files that become the release."""
        return self._files if self.is_folder else self._files / self.path.name

    def _parts_of(self, name: str) -> Parts:
        map = self.map / f"{name}.jsonl" if self.map and self.is_folder else self.map
        return Parts(self._files / name, map)

    def _note(self, name: str) -> Path:
        return self._parts.folder / f"done-{name}.json"

    def _remove(self) -> None:
        """Remove what was begun, the originals first."""
        for name in self.names:
            self._parts_of(name).remove()
        if self.is_folder and self.map:
            with suppress(OSError):  # maps of an old release lie there
                self.map.rmdir()
        self._parts.remove()


def _state(path: Path) -> tuple[int, ...]:
    """Return what the file system knows of a file, which changes with its content."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def _removed_if_refused(parts: Parts) -> Iterator[None]:
    """Leave no part of a file that the same command cannot finish."""
    try:
        yield
    except Unreachable:
        raise
    except RaptError:
        parts.remove()
        raise


def _check_parquet(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        path = folder / name
        if not path.is_file() or SUFFIXES.get(path.suffix.lower()) != FOLDER:
            what = "a folder" if path.is_dir() else "no Parquet file"
            raise RaptError(
                f"{path}: got {what}, expected files with suffix .parquet, .pq in {folder}. Move "
                "it elsewhere."
            )


def write_statement(out: Path, content: dict[str, Any]) -> None:
    """Write a release's privacy statement beside it, as JSON and in plain words."""
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_bytes(beside(out, ".privacy.json"), [text.encode()])
    write_bytes(beside(out, ".privacy.txt"), [plain_words(content).encode()])


def _map_lines(documents: Sequence[Sequence[tuple[str, list[list[Word]]]]], start: int) -> str:
    """Return the map that restores the originals: a line of JSON for each changed word."""
    lines = [
        {"document": number, "column": column}
        | ({"text": at} if len(texts) > 1 else {})
        | {"word": place, "original": word.original, "released": word.released}
        for number, document in enumerate(documents, start)
        for column, texts in document
        for at, text in enumerate(texts)
        for place, word in enumerate(text)
        if word.original != word.released
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _private(path: Path, overwrite: bool) -> BinaryIO:
    """Open a new file that only its owner may read, from the first byte on."""
    if overwrite:
        path.unlink(missing_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb")
