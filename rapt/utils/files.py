"""Files that are whole or not there: written under a temporary name, then moved."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rapt.paths import STATE
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def of_user(variable: str, below_home: str) -> Path:
    """Return the folder that an XDG variable names, else a folder below the user's home.

    Raises:
        RaptError: there is neither, as for a container's user without an entry in passwd.
    """
    if given := os.environ.get(variable):
        return Path(given)
    with suppress(RuntimeError):
        if os.environ.get("HOME") != "":
            return Path.home() / below_home
    raise RaptError(f"{variable}: got none and no home folder, expected a folder. Set {variable}.")


def home() -> Path:
    """The main workspace: the working folder, or RAPT_HOME where a stage runs in a copy of it."""
    return Path(os.environ.get("RAPT_HOME", ".")).resolve()


SCRATCH = STATE / "tmp"  # outside every folder that DVC hashes


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in the error of a write, which the system leaves out."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path for a file or folder; move it to `path` on success, else remove it.

    It is on the same disk, as nothing else can be moved in one step.
    """
    path = Path(path)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    there = next(folder for folder in path.absolute().parents if folder.exists())
    on_disk = SCRATCH if SCRATCH.stat().st_dev == there.stat().st_dev else there
    scratch = on_disk / f"{path.name}.{uuid.uuid4().hex}"
    try:
        with _naming(path):
            yield scratch
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        os.replace(scratch, path)
    finally:
        if scratch.is_dir():
            shutil.rmtree(scratch)
        else:
            scratch.unlink(missing_ok=True)


def remove_scratch(path: Path) -> None:
    """Remove the temporary copies of a file that killed processes left; none may write it now."""
    for left in SCRATCH.glob(f"{path.name}.*"):
        left.unlink()


def write_bytes(path: Path, content: Iterable[bytes], mode: int = 0o666) -> None:
    """Write a file piece by piece under a temporary name in its own folder, then move it.

    It has the mode, from which the umask takes, from its first byte on.
    """
    scratch = path.with_name(f"{path.name}.tmp")
    scratch.unlink(missing_ok=True)
    opened = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with _naming(path), open(opened, "wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)


def keep_names(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: a new file's, or a moved one's."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_json(path: str | Path, content: Any) -> None:
    """Write JSON with sorted keys, so that equal content gives equal bytes."""
    with atomic(path) as scratch:
        scratch.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file."""
    return json.loads(Path(path).read_text())


def write_parquet(path: str | Path, table: pa.Table) -> None:
    """Write one table, without the metadata that would vary or carry more than its columns.

    `path` may lie inside the folder that `atomic` yields.
    """
    import pyarrow.parquet as pq  # 33 MiB, and not all who write files write tables

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(None), path, compression="zstd")


def read_parquet(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read one table, or some columns, without what pq.read_table brings: 20 MiB of modules."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path).read(columns)


def columns_of_parquet(path: str | Path) -> list[str]:
    """Return the names of a table's columns."""
    import pyarrow.parquet as pq

    return list(pq.read_schema(path).names)


def column_of_vectors(vectors: NDArray[np.float32], lengths: NDArray[np.int64]) -> pa.Array:
    """A column with the vectors (words, d) of each text's words, in the memory that they are in."""
    import numpy as np
    import pyarrow as pa

    each = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), each)


def vectors_of_column(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """The vectors that `column_of_vectors` was given, float32 (words, d), read-only."""
    each = column.combine_chunks().flatten()
    return each.flatten().to_numpy().reshape(len(each), column.type.value_type.list_size)


class Digested(io.FileIO):
    """A file with a digest of what is read of it.

    It is the file's sha256 if all is read once, from start to end; seeks are hashed, too.
    """

    def __init__(self, path: Path) -> None:
        """Open the file."""
        super().__init__(path)
        self.digest, self._end = hashlib.sha256(), 0

    def readinto(self, buffer: Any) -> int:
        """Read on, and note the place if it is another one than where the last read ended."""
        start = self.tell()
        if start != self._end:
            self.digest.update(f"@{start}:".encode())
        count = super().readinto(buffer) or 0
        self.digest.update(memoryview(buffer)[:count])
        self._end = start + count
        return count


def sha256(path: str | Path) -> str:
    """The sha256 of a file, or of a folder: that of its files' names and sha256s, sorted."""
    path = Path(path)
    if path.is_dir():
        names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
        listing = "".join(f"{name}\0{sha256(path / name)}\n" for name in names)
        return hashlib.sha256(listing.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
