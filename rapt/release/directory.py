"""Privatizing a folder of Parquet files: a job for each of them, one release and one statement."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import TypeAdapter

from rapt.release.formats import STREAM, SUFFIXES, Parquet
from rapt.release.job import Job, Progress, settings, write_statement
from rapt.release.parts import Parts
from rapt.release.statement import Counts, statement
from rapt.release.text import TextPrivatizer
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.files import write_bytes
from rapt.utils.progress import counter

FORMAT = "parquet"
IGNORED = (".", "_")  # what names begin with that no reader of Parquet takes for data: _SUCCESS


@dataclass(frozen=True)
class Done:
    """What waits beside a finished file for the statement: its input's sha256 and its counts."""

    input: str
    counts: Counts


DONE = TypeAdapter(Done)


@dataclass(frozen=True)
class Directory:
    """A folder of Parquet files to privatize, to a folder with files of the same names.

    `release` is the unit of work: any process may do it for any of the files, in any order, and
    again if it was killed. What is finished lies in OUT.parts until `finish` makes OUT of it.

    Attributes:
        path: the folder to read.
        out: the folder to write.
        columns: what to privatize, in every file.
        drop_others: whether other columns are left out.
        map: the folder where the restoring maps go, one a file, if there shall be some.
        overwrite: whether `out` and `map` may exist.
    """

    path: Path
    out: Path
    columns: tuple[str, ...]
    drop_others: bool = False
    map: Path | None = None
    overwrite: bool = False

    @cached_property
    def names(self) -> list[str]:
        """The files, in order.

        Raises:
            RaptError: something else lies in the folder, or nothing.
        """
        names = sorted(n for n in os.listdir(self.path) if not n.startswith(IGNORED))
        _check_parquet(self.path, names)
        if not names:
            raise RaptError(f"{self.path}: holds no Parquet files")
        return names

    def check(self) -> None:
        """Check the paths, and of each file its columns and its first rows.

        Raises:
            RaptError: there is something else in the folder than Parquet files with these columns,
                or something to write is there, or would lie in what is read.
        """
        if self.out == STREAM:
            raise RaptError(f"OUT: got -, expected a folder, as {self.path} is one.")
        folders = [folder.resolve() for folder in (self.path, self.out, self.map) if folder]
        if any(one == other or one in other.parents for one, other in permutations(folders, 2)):
            raise RaptError(
                "IN, OUT and the map: got folders that lie in one another, expected separate ones."
            )
        folders = [] if self._complete() else [self.out]
        for folder in (*folders, *([self.map] if self.map and not self._parts.begun else [])):
            if folder.exists() and not (self.overwrite and folder.is_dir()):
                raise RaptError(f"{folder}: exists; give --overwrite to replace it (a folder only)")
        if self.out.exists():
            _check_parquet(self.out, os.listdir(self.out))  # nothing else is ever removed
        for name in self.names:
            if not any(self._job(name).source.chunks()):
                raise RaptError(f"{self.path / name}: holds no rows")

    def run(self, privatizer: TextPrivatizer) -> Counts:
        """Privatize the files, one after the other, and write the statement beside the folder.

        Raises:
            RaptError: a file is not what it should be.
        """
        documents = sum(pq.read_metadata(self.path / name).num_rows for name in self.names)
        with self.opened(privatizer), counter("privatizing", documents, "documents") as progress:
            for name in self.names:
                self.release(name, privatizer, progress.update)
            return self.finish(privatizer)

    @contextmanager
    def opened(self, privatizer: TextPrivatizer) -> Iterator[None]:
        """Begin the release, or go on with it; one run at a time.

        Raises:
            RaptError: it was begun with other options or other files, or another run works on it.
        """
        identity = settings(privatizer, self._job(self.names[0]).source, self.map)
        with self._parts.opened(identity | {"list of files": self.names}, resumable=True):
            if self._complete():
                os.replace(self.out, self._files)
            self._files.mkdir(exist_ok=True)
            if self.map:
                self.map.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield

    def release(
        self, name: str, privatizer: TextPrivatizer, progress: Progress = lambda _: None
    ) -> Counts:
        """Privatize one of the files, unless that is done.

        Raises:
            RaptError: it is not what it should be, or is not what it was when it was privatized.
        """
        job = self._job(name)
        if not job.out.exists():
            job.read()
            return job.release(privatizer, partial(self._note, name), progress)
        if not self._is_done(name):
            raise RaptError(
                f"{job.source.where}: changed since it was privatized; remove "
                f"{self._parts.folder} to begin anew"
            )
        Parts(job.out, job.map).remove()  # killed before it could
        counts = self._done(name).counts
        progress(counts.documents)
        return counts

    def finish(self, privatizer: TextPrivatizer) -> Counts:
        """Make the release of its files, all of which are done: where it is, its statement is."""
        counts = Counts()
        for name in self.names:
            counts.update(self._done(name).counts)
        write_statement(self.out, statement(privatizer, self.columns, counts))
        if self.out.exists():
            shutil.rmtree(self.out)
        os.replace(self._files, self.out)
        self._parts.remove()
        return counts

    def _complete(self) -> bool:
        """Whether the release is in place of a run that was killed before it removed its parts."""
        moved = self.out.exists() and not self._files.exists()
        return moved and all(self._is_done(name) for name in self.names)

    @property
    def _parts(self) -> Parts:
        return Parts(self.out)

    @property
    def _files(self) -> Path:
        return self._parts.folder / "files"

    def _job(self, name: str) -> Job:
        source = Parquet(self.path / name, self.columns, self.drop_others)
        map = self.map / f"{name}.jsonl" if self.map else None
        return Job(source, self._files / name, map, self.overwrite, (name,))

    def _note(self, name: str, counts: Counts) -> None:
        """Note that a file is done."""
        done = Done(files.sha256(self.path / name), counts)
        write_bytes(self._note_of(name), [DONE.dump_json(done)])

    def _is_done(self, name: str) -> bool:
        """Whether a file was finished, and is what it was then."""
        noted = self._note_of(name).exists()
        return noted and self._done(name).input == files.sha256(self.path / name)

    def _done(self, name: str) -> Done:
        return DONE.validate_json(self._note_of(name).read_bytes())

    def _note_of(self, name: str) -> Path:
        return self._parts.folder / f"{name}.json"


def _check_parquet(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        path = folder / name
        if not path.is_file() or SUFFIXES.get(path.suffix.lower()) != FORMAT:
            what = "a folder" if path.is_dir() else "no Parquet file"
            raise RaptError(
                f"{path}: got {what}, expected files with suffix .parquet, .pq in {folder}. Move "
                "it elsewhere."
            )
