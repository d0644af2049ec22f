"""Preparation of a source's rows as labelled, divided and sampled examples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rapt.data import attributes, labels, read, sources
from rapt.data.config import Bins, MostFrequent, Values
from rapt.data.examples import COLUMNS, segments, segments_of
from rapt.utils import files
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.tasks.base import Task

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Prepared:
    """A task's examples: a table for each split (docs/data.md), and a summary of the steps."""

    tables: dict[str, pa.Table]
    summary: dict[str, Any]

    @property
    def dropped(self) -> str:
        """The rows that were left out, for a message: "6 empty text, 80 not drawn"."""
        return ", ".join(f"{n} {why}" for why, n in self.summary["dropped"].items() if n)

    def write(self, folder: Path) -> None:
        """Write train.parquet, test.parquet and summary.json."""
        for split, table in self.tables.items():
            files.write_parquet(folder / f"{split}.parquet", table)
        files.write_json(folder / "summary.json", self.summary)


def prepare(name: str, task: Task, seed: int) -> Prepared:
    """Read a task's source and make its examples.

    Rows are dropped in this order, and counted. First go excluded values, unlabelled by the
    threshold, other attribute values, unknown authors, empty texts and long ones. Then go training
    rows that are also in the evaluation split, attribute values that are not among the most
    frequent, and rows not drawn. The draw depends only on the seed, the task's name and the rows.
    It is the same on every machine, and a smaller sample is a part of a larger one.

    A task with a label keeps the rows without a value of an attribute: the attack leaves them out.

    Rows that are divided here are divided after the most frequent values are known. Only then are
    the training rows that are in both splits dropped. The most frequent values are therefore
    counted over distinct texts, of which a copy remains however the rows are divided.

    If columns identify authors, a source's own splits are merged and divided by whole authors.
    Dropping the authors of evaluation rows from the training rows would leave next to nothing if an
    author is only known by a profile.

    Raises:
        RaptError: One line, which never contains text of the data.
    """
    loaded = sources.load(task)
    halves = sum(split.columns.halves for split in loaded.splits.values())
    rows = Remaining(_frame(name, task, loaded), is_tuned=task.is_tuned)
    read_rows = len(rows.frame)
    for column, values in (task.exclude or {}).items():
        rows.drop(rows.frame[f"exclude {column}"].map(labels.stripped).isin(values), "excluded")
    task.parse(rows, f"tasks.{name}")
    _attributes(rows, task)
    if task.identifying:
        rows.drop(_is_blank(rows.frame, _author_columns(task)), "unknown author")
    if len(rows.frame) and not _each(rows.frame, _has_words).any():
        raise RaptError(
            f"tasks.{name}.text: got no letter or digit in {len(rows.frame)} texts, expected "
            "words. Name the column that holds them."
        )
    shortened = task.cut(rows)
    lengths = _each(rows.frame, lambda texts: [len(text.split()) for text in texts])
    rows.drop(lengths.map(min) == 0, "empty text")
    if task.max_words:
        lengths = lengths[rows.frame.index]
        rows.drop(lengths.map(sum) > task.max_words, "longer than max_words")
    if rows.frame.empty:
        raise RaptError(f"tasks.{name}: got no rows, expected some; dropped: {rows.dropped}.")
    if "all" in loaded.splits or task.identifying:
        _most_frequent(rows, name, task)
        _divide(rows, name, task, seed)
        _overlaps(rows)
    else:
        _overlaps(rows)
        _most_frequent(rows, name, task)
    drawn = {split: _draw(rows, name, task, seed, split) for split in SPLITS}
    rows.dropped["not drawn"] = len(rows.frame) - sum(map(len, drawn.values()))
    drawn = {split: task.examples(frame, split) for split, frame in drawn.items()}
    counts = {split: len(frame) for split, frame in drawn.items()}
    edges = _edges(rows.frame[rows.frame["split"] == "train"], name, task)
    return Prepared(
        {split: _table(frame, split, task, edges) for split, frame in drawn.items()},
        {"read": read_rows, "dropped": rows.dropped, "rows": counts, "source": loaded.origin}
        | shortened
        | {key: n for key, n in {"halves": halves, "lacking": rows.lacking}.items() if n},
    )


def normalized(text: str) -> str:
    """Normalize case and white space, so that copies of a text compare equal."""
    return " ".join(text.casefold().split())


def identity(parts: Sequence[str]) -> str:
    """Return the key by which two examples count as duplicates: the normalized text.

    Of several texts it is all of them, in any order. A pair that shares only one text with another
    is a different example. In Quora Question Pairs 1,346 questions are in both splits, in different
    pairs.
    """
    return "\0".join(sorted(map(normalized, parts)))


def comparable(split: pa.Table, compared: Sequence[str]) -> pd.DataFrame:
    """Add to the rows of a split from data/raw what the gate compares: the text's identity.

    Tasks whose words have tags get the number of both, `words_of_text` and `tags_of_text`. Two
    texts are the same by the columns `compared`, those of the task.
    """
    frame = split.to_pandas().assign(identity=identities(split, compared))
    if "entities" in frame:
        frame["words_of_text"] = frame["text"].map(lambda text: len((text or "").split(" ")))
        frame["tags_of_text"] = frame["entities"].map(
            lambda tags: -1 if tags is None else len(tags)
        )
    return frame


def identities(table: pa.Table, compared: Sequence[str]) -> list[str]:
    """Return what two rows have in common if their texts are the same (`identity`)."""
    others = {name: pa.nulls(len(table)) for name in COLUMNS if name not in compared}
    texts = pa.table({name: others.get(name, table[name]) for name in COLUMNS})
    return list(map(identity, segments(texts)))


class Remaining:
    """The remaining rows, and the number of dropped ones by reason."""

    def __init__(self, frame: pd.DataFrame, *, is_tuned: bool) -> None:
        """Begin with all rows of a task, which may be tuned on."""
        self.frame, self.is_tuned = frame, is_tuned
        self.dropped: dict[str, int] = {}
        self.lacking: dict[str, int] = {}

    def drop(self, mask: pd.Series, reason: str) -> None:
        """Drop rows, and count them."""
        self.dropped[reason] = self.dropped.get(reason, 0) + int(mask.sum())
        self.frame = self.frame[~mask]

    def keep(self, column: str, values: Iterable[str]) -> None:
        """Leave these values of an attribute alone."""
        others = ~self.frame[column].isin(set(values))
        self.without_value(column, others, f"another value of {column.replace('_', ' ', 1)}")

    def without_value(self, column: str, mask: pd.Series, reason: str) -> None:
        """Drop rows without a value of an attribute; where rows are tuned on, only the value."""
        if not self.is_tuned:
            self.drop(mask, reason)
            return
        self.lacking[reason] = self.lacking.get(reason, 0) + int(mask.sum())
        values = self.frame[column].astype(object).mask(mask, None)
        self.frame = self.frame.assign(**{column: values})


def _frame(name: str, task: Task, loaded: sources.Loaded) -> pd.DataFrame:
    """Build a frame of all splits' rows, in the pipeline's columns, all strings or None."""
    key = f"tasks.{name}"
    # Column of ours → column of theirs, and its key in params.yaml.
    used = {
        f"attribute_{attribute}": (section.column, f"{key}.attributes.{attribute}.column")
        for attribute, section in task.inferred.items()
    }
    used |= {f"author {column}": (column, f"{key}.authors") for column in task.identifying}
    used |= {f"exclude {column}": (column, f"{key}.exclude") for column in task.exclude or {}}
    frames = []
    for split, table in loaded.splits.items():
        columns: dict[str, Any] = {
            "split": split,
            "row": range(1, len(next(iter(table.columns.values()))) + 1),
            "text_pair": None,
            "choices": None,
        }
        columns |= task.read(table, key)
        for column, (theirs, where) in used.items():
            columns[column] = read.strings(table.columns, theirs, where, table.where)
        frames.append(pd.DataFrame(columns, dtype=object))
    return pd.concat(frames, ignore_index=True)


def _attributes(rows: Remaining, task: Task) -> None:
    """Drop the rows without a valid value of an attribute, and parse numbers to be binned."""
    for attribute, how in task.inferred.items():
        column = f"attribute_{attribute}"
        rows.frame = rows.frame.assign(**{column: rows.frame[column].map(labels.stripped)})
        if isinstance(how, Values):
            rows.keep(column, how.values)
        elif isinstance(how, Bins):
            numbers = rows.frame[column].map(attributes.number).astype(float)  # None becomes NaN
            rows.frame = rows.frame.assign(**{column: numbers})
            rows.without_value(column, numbers.isna(), f"attribute {attribute}: no number")
            numbers = numbers[rows.frame.index]
            outside = numbers.notna() & ~numbers.between(how.least, how.most)
            limits = f"{how.least:.15g} to {how.most:.15g}"
            rows.without_value(column, outside, f"attribute {attribute}: outside {limits}")


def _most_frequent(rows: Remaining, name: str, task: Task) -> None:
    """Keep only the rows with the values that occur in the most distinct texts."""
    for attribute, how in task.inferred.items():
        if isinstance(how, MostFrequent):
            column = f"attribute_{attribute}"
            texts = rows.frame.assign(key=_keys(rows.frame)).drop_duplicates([column, "key"])
            where = f"tasks.{name}.attributes.{attribute}"
            rows.keep(column, attributes.most_frequent(texts[column], how, where))


def _edges(train: pd.DataFrame, name: str, task: Task) -> dict[str, list[float]]:
    """Compute each binned attribute's edges from all training rows, drawn or not."""
    return {
        attribute: attributes.edges(
            train[f"attribute_{attribute}"].dropna(), how, f"tasks.{name}.attributes.{attribute}"
        )
        for attribute, how in task.inferred.items()
        if isinstance(how, Bins)
    }


def _is_blank(frame: pd.DataFrame, columns: list[str]) -> pd.Series:
    """Mark the rows that have an empty value in one of these columns."""
    return frame[columns].map(lambda value: not (value and value.strip())).any(axis=1)


def _overlaps(rows: Remaining) -> None:
    """Drop the rows of the training split that are also in the evaluation split."""
    keys, is_train = _keys(rows.frame), rows.frame["split"] == "train"
    shared = is_train & keys.isin(set(keys[~is_train]))
    rows.drop(shared, "training text also in the evaluation split")


def _keys(frame: pd.DataFrame) -> pd.Series:
    """Return each row's `identity`."""
    return _each(frame, identity)


def _each(frame: pd.DataFrame, of: Callable[[list[str]], Any]) -> pd.Series:
    """Apply a function to the texts of each row."""
    texts = map(segments_of, *(frame[name] for name in COLUMNS))
    return pd.Series(map(of, texts), index=frame.index, dtype=object)


def _has_words(texts: list[str]) -> bool:
    return any(map(str.isalnum, chain.from_iterable(texts)))


def _author_columns(task: Task) -> list[str]:
    return [f"author {column}" for column in task.identifying]


def _authors(frame: pd.DataFrame, task: Task) -> np.ndarray:
    """Number each row's author; without author columns, each row is its own author."""
    if not task.identifying:
        return np.arange(len(frame))
    told = frame[_author_columns(task)].map(_author)
    return pd.factorize(pd.Series(list(told.itertuples(index=False, name=None)), dtype=object))[0]


def _author(value: str) -> float | str:
    """Normalize a value that identifies an author: '28.0' is 28, 'Ann ' is 'ann'."""
    number = labels.number(value)
    return normalized(value) if number is None else number


def _divide(rows: Remaining, name: str, task: Task, seed: int) -> None:
    """Draw an evaluation split of at least rows.test rows, by whole authors."""
    test = task.rows.test
    assert test is not None  # params.py demands it of these tasks
    most = len(rows.frame) - 1
    if test > most:
        raise RaptError(
            f"tasks.{name}.rows.test: got {test}, expected at most {most} of all {most + 1} rows."
        )
    authors = _authors(rows.frame, task)
    texts = np.bincount(authors)
    order = _order(len(texts), seed, name, "divide")
    enough = np.searchsorted(texts[order].cumsum(), test) + 1
    is_test = np.isin(authors, order[:enough])
    rows.frame = rows.frame.assign(split=np.where(is_test, "test", "train"))


def _draw(rows: Remaining, name: str, task: Task, seed: int, split: str) -> pd.DataFrame:
    """Draw the rows of a split that are used, in random order."""
    frame = rows.frame[rows.frame["split"] == split]
    wanted: int | None = getattr(task.rows, split)
    if wanted and wanted > len(frame):
        raise RaptError(
            f"tasks.{name}.rows.{split}: got {wanted}, expected at most {len(frame)}, the rows "
            "that are left. Write null for all."
        )
    if frame.empty:
        raise RaptError(
            f"tasks.{name}: got no rows for {split}, expected some; dropped: {rows.dropped}."
        )
    return frame.iloc[_order(len(frame), seed, name, split)[:wanted]]


def _order(n: int, seed: int, *names: str) -> np.ndarray:
    """Return a random permutation of n rows, the same on every machine.

    It uses the generator's raw output, as NumPy's methods may change between versions.
    """
    key = hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()[:16]
    raw = np.random.Philox(key=np.frombuffer(key, "<u8")).random_raw(n)
    return np.argsort(raw, kind="stable")


def _table(frame: pd.DataFrame, split: str, task: Task, edges: dict[str, list[float]]) -> pa.Table:
    columns = {
        "example_id": pa.array([f"{split}-{n:06d}" for n in range(len(frame))], pa.string()),
        "text": pa.array(frame["text"], pa.string()),
        "text_pair": pa.array(frame["text_pair"], pa.string()),
        "choices": pa.array(frame["choices"], pa.list_(pa.string())),
        "label": pa.nulls(len(frame), pa.int64()),
        **task.columns(frame),
    }
    for attribute in task.inferred:
        values = frame[f"attribute_{attribute}"]
        if attribute in edges:
            known = values.dropna()
            bins = attributes.binned(known, edges[attribute])
            values = pd.Series(bins, known.index, dtype=object).reindex(values.index)
        columns[f"attribute_{attribute}"] = pa.array(values, pa.string(), from_pandas=True)
    if task.identifying:
        columns["author"] = pa.array(_authors(frame, task), pa.int64())
    return pa.table(columns)
