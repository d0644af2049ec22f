"""A user's table: its files, its classes, its attributes, and columns that may name authors."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from rapt.data import attributes, read
from rapt.data.config import SUFFIXES, Bins, Format
from rapt.utils.errors import RaptError, not_allowed

# Names of a folder's evaluation split, the most likely first.
EVALUATIONS = ["test", "validation", "valid", "dev"]
LABEL = "label"  # the column that is read where no other is named
# An attribute of more distinct values is of bins if they are numbers, else of the most frequent.
MOST_VALUES = 20
# Values of an attribute in a smaller share of the rows are no targets.
RARE = 0.01
# A column holds numbers if this share of its values are: the others are no value.
NUMERIC = 0.95
BINS, FREQUENT = 5, 10
LEAST_OF_A_CLASS = 5  # training rows
EXCEL = (".xlsx", ".xls", ".xlsm", ".ods")

# train.csv, or as data sets of the hub are stored: train-00000-of-00002.parquet.
_SPLIT = re.compile(r"(?P<split>[a-z]+)(?:-(?P<part>\d+)-of-(?P<parts>\d+))?", re.IGNORECASE)


class UserTable:
    """The user's rows, from all files.

    Attributes:
        paths: the files of each split: `all`, or `train` and `test`.
        sha256: of the joined files of each split.
        format: of every file.
        where: the first file, for errors.
        names: of the columns.
    """

    def __init__(self, paths: dict[str, list[Path]], options: dict[str, Any]) -> None:
        """Read the files.

        Args:
            paths: the files of each split.
            options: of their format, other than its type.

        Raises:
            RaptError: a file is missing or cannot be read.
        """
        self.paths = paths
        first = next(iter(paths.values()))[0]
        data = {split: [_bytes(path) for path in parts] for split, parts in paths.items()}
        self.sha256 = {s: hashlib.sha256(b"".join(parts)).hexdigest() for s, parts in data.items()}
        self.format = _format(first, options)
        self.where = str(first)
        self.splits = [
            read.tables(dict(zip(map(str, paths[split]), data[split], strict=True)), self.format)
            for split in paths
        ]
        self.names = list(self.splits[0])
        self.is_divided = "all" in paths

    @cached_property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(len(next(iter(split.values()))) for split in self.splits)

    def values(self, column: str, key: str) -> list[str | None]:
        """Return one column of all files; `key` names the column's role in errors."""
        return [v for s in self.splits for v in read.strings(s, column, key, self.where)]

    def classes(self, column: str, *, least: int, case: str | None) -> tuple[list[str], list[str]]:
        """Return the classes of a column, and those that are left out.

        Args:
            column: its name.
            least: number of training rows below which a class is left out.
            case: `fold` if classes that differ by case alone are one, `keep` if not.

        Raises:
            RaptError: there are not two, or so many that it does not hold classes. Or some differ
                by case alone, and `case` is None.
        """
        trained = read.strings(self.splits[0], column, "label", self.where)
        counts = Counter(_tidy(v, case) for v in self.values(column, "label") if _is_there(v))
        train = Counter(_tidy(v, case) for v in trained if _is_there(v))
        folded = Counter(value.casefold() for value in counts)
        if case is None and (alike := [value for value in counts if folded[value.casefold()] > 1]):
            raise RaptError(
                f"{self.where}: label: got {len(alike)} classes of column {column!r} that differ "
                "by upper and lower case alone, expected others. Give --label-case fold to make "
                "them one, or --label-case keep."
            )
        classes = [value for value in counts if train[value] >= least]
        most = max(2, self.rows // (2 * LEAST_OF_A_CLASS))
        if not 2 <= len(classes) <= most:
            hint = (
                "Name another column, or leave out rare ones with --min-class N."
                if classes[2:]
                else "Add rows with others, or name another column."
            )
            raise RaptError(
                f"{self.where}: label: got {len(classes)} different values in column {column!r}, "
                f"expected 2 to {most}. {hint}"
            )
        return sorted(classes, key=_by_number), sorted(set(counts) - set(classes), key=_by_number)

    def attribute(self, column: str) -> tuple[dict[str, Any], str]:
        """Return what an attacker infers of a column, as params.yaml has it, and what it leaves.

        Numbers become bins of equally many rows. Of other values those in a hundredth of the rows
        are targets, or the most frequent if hardly any or very many are.

        Raises:
            RaptError: the column does not hold two values.
        """
        values = [v.strip() for v in self.values(column, "attribute") if _is_there(v) and v]
        counts = Counter(values)
        if len(counts) < 2:
            raise RaptError(
                f"{self.where}: attribute: got {len(counts)} different values in column "
                f"{column!r}, expected two or more. Name another column."
            )
        if len(counts) > MOST_VALUES // 2 and (bins := _bins(column, counts)):
            return bins.model_dump(exclude_none=True), f"numbers in {bins.count} bins"
        common = sorted((v for v, n in counts.items() if n > RARE * self.rows), key=_by_number)
        if 2 <= len(common) <= MOST_VALUES:
            targets: dict[str, Any] = {"type": "values", "column": column, "values": common}
            said = f"its {len(common)} values"
        else:
            count = min(FREQUENT, len(counts))
            common = [value for value, _ in counts.most_common(count)]
            targets = {"type": "most-frequent", "column": column, "count": count}
            said = f"its {count} most frequent values"
        rare = len(values) - sum(counts[value] for value in common)
        others = f", not the rarer {len(counts) - len(common)} of {rare} rows" if rare else ""
        return targets, said + others

    def repeated(self, used: Sequence[str]) -> dict[str, int]:
        """Return the columns, other than those used, whose values stand in several rows each.

        They may name authors, whose other texts would be in both splits. With each the number of
        its values.
        """
        found = {}
        for name in self.names:
            if name in used or name in self.splits[0].twice:
                continue
            try:
                counts = Counter(v for v in self.values(name, "column") if _is_there(v))
            except RaptError:  # a column of lists
                continue
            if MOST_VALUES < len(counts) <= counts.total() / 2:
                found[name] = len(counts)
        return found


def find(path: Path) -> dict[str, list[Path]]:
    """Return the files of a task: `all`, or a folder's `train` and `test`, each in its parts.

    Files of other names are the parts of one table, as Spark writes them.

    Raises:
        RaptError: the folder holds only one split, no file, or not all parts.
    """
    if not path.is_dir():
        return {"all": [path]}
    splits: dict[str, list[Path]] = {}
    files = [file for file in sorted(path.iterdir()) if not file.name.startswith((".", "_"))]
    files = [file for file in files if file.suffix.lower() in SUFFIXES]
    for file in files:
        if named := _SPLIT.fullmatch(file.stem):
            splits.setdefault(named["split"].lower(), []).append(file)
    evaluations = [splits[name] for name in EVALUATIONS if name in splits]
    if files and not evaluations and "train" not in splits:
        return {"all": files}
    if "train" not in splits or not evaluations:
        raise RaptError(
            f"{path}: got no train and test files in it, expected train and one of "
            f"{', '.join(EVALUATIONS)}, ending in {', '.join(SUFFIXES)}. Rename them."
        )
    for parts in (splits["train"], *evaluations):
        named = _SPLIT.fullmatch(parts[0].stem)
        expected = int(named["parts"] or 1) if named else 1
        if len(parts) != expected:
            raise RaptError(
                f"{parts[0]}: got {len(parts)} files of this split, expected {expected}. Fetch the "
                "others, or remove what does not belong to it."
            )
    labelled = (parts for parts in evaluations if not _is_hidden(parts))
    return {"train": splits["train"], "test": next(labelled, evaluations[0])}


def _is_hidden(paths: list[Path]) -> bool:
    """Whether a split's labels are withheld: -1, as in the test splits of GLUE."""
    table = UserTable({"test": paths}, {})
    return LABEL in table.names and set(table.values(LABEL, "label")) == {"-1"}


def _bins(column: str, counts: Counter[str]) -> Bins | None:
    """Return bins of a column of numbers, None if it holds something else."""
    numbers = [float(value) for value in counts.elements() if _is_number(value)]
    if len(numbers) < NUMERIC * counts.total():
        return None
    least, most = min(numbers), max(numbers)
    for count in range(BINS, 1, -1):
        bins = Bins(type="bins", column=column, least=least, most=most, count=count)
        try:
            attributes.edges(numbers, bins, "attribute")
        except RaptError:  # so many numbers are equal that a bin would be empty
            continue
        return bins
    return None


def _is_number(value: str) -> bool:
    try:
        return isfinite(float(value))
    except ValueError:
        return False


def _tidy(value: str | None, case: str | None) -> str:
    text = (value or "").strip()
    return text.casefold() if case == "fold" else text


def _is_there(value: str | None) -> bool:
    return not read.is_missing(value)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RaptError(f"{path}: got {error.strerror}, expected a file with rows.") from None


def _format(path: Path, options: dict[str, Any]) -> Format:
    if path.suffix.lower() in EXCEL:
        raise RaptError(
            f"{path}: got a spreadsheet, expected {', '.join(SUFFIXES)}. Save it as CSV (UTF-8)."
        )
    if path.suffix.lower() not in SUFFIXES:
        raise RaptError(not_allowed(str(path), path.suffix, SUFFIXES))
    return read.file_format(SUFFIXES[path.suffix.lower()], **options)


def _by_number(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value
