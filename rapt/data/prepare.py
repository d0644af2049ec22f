"""Preparation of a source's rows as labelled, divided and sampled examples."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rapt.data import attributes, read, references, sources
from rapt.data.config import Bins, Label, MostFrequent, Task, Values
from rapt.data.examples import COLUMNS, segments_of
from rapt.utils import files
from rapt.utils.errors import RaptError

SPLITS = ("train", "test")
BIO = re.compile(r"O|[BI]-\S+")  # Ramshaw and Marcus (1995)


@dataclass(frozen=True)
class Prepared:
    """A task's examples: a table for each split (docs/data.md), and a summary of the steps."""

    tables: dict[str, pa.Table]
    summary: dict[str, Any]

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
    rows = _Rows(_frame(name, task, loaded), is_labelled=task.label is not None)
    read_rows = len(rows.frame)
    for column, values in (task.exclude or {}).items():
        rows.drop(rows.frame[f"exclude {column}"].map(_stripped).isin(values), "excluded")
    if task.label:
        _label(rows, task.label, f"tasks.{name}.label")
    _attributes(rows, task)
    if task.authors:
        rows.drop(_is_blank(rows.frame, _author_columns(task)), "unknown author")
    if len(rows.frame) and not _each(rows.frame, _has_words).any():
        raise RaptError(
            f"tasks.{name}.text: got no letter or digit in {len(rows.frame)} texts, expected "
            "words. Name the column that holds them."
        )
    shortened = _cut(rows, task.cut_words) if task.cut_words else {}
    lengths = _each(rows.frame, lambda texts: [len(text.split()) for text in texts])
    rows.drop(lengths.map(min) == 0, "empty text")
    if task.max_words:
        lengths = lengths[rows.frame.index]
        rows.drop(lengths.map(sum) > task.max_words, "longer than max_words")
    if rows.frame.empty:
        raise RaptError(f"tasks.{name}: got no rows, expected some; dropped: {rows.dropped}.")
    if "all" in loaded.splits or task.authors:
        _most_frequent(rows, name, task)
        _divide(rows, name, task, seed)
        _overlaps(rows)
    else:
        _overlaps(rows)
        _most_frequent(rows, name, task)
    drawn = {split: _draw(rows, name, task, seed, split) for split in SPLITS}
    rows.dropped["not drawn"] = len(rows.frame) - sum(map(len, drawn.values()))
    if task.references:
        drawn = {split: references.examples(frame, split) for split, frame in drawn.items()}
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


class _Rows:
    """The remaining rows, and the number of dropped ones by reason."""

    def __init__(self, frame: pd.DataFrame, *, is_labelled: bool) -> None:
        self.frame, self.is_labelled = frame, is_labelled
        self.dropped: dict[str, int] = {}
        self.lacking: dict[str, int] = {}

    def drop(self, mask: pd.Series, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + int(mask.sum())
        self.frame = self.frame[~mask]

    def keep(self, column: str, values: Iterable[str]) -> None:
        others = ~self.frame[column].isin(set(values))
        self.without_value(column, others, f"another value of {column.replace('_', ' ', 1)}")

    def without_value(self, column: str, mask: pd.Series, reason: str) -> None:
        """Drop rows without a value of an attribute; where rows are labelled, only the value."""
        if not self.is_labelled:
            self.drop(mask, reason)
            return
        self.lacking[reason] = self.lacking.get(reason, 0) + int(mask.sum())
        values = self.frame[column].astype(object).mask(mask, None)
        self.frame = self.frame.assign(**{column: values})


def _frame(name: str, task: Task, loaded: sources.Loaded) -> pd.DataFrame:
    """Build a frame of all splits' rows, in the pipeline's columns, all strings or None."""
    key = f"tasks.{name}"
    # Column of ours → column of theirs, and its key in params.yaml.
    used = {} if task.entities or task.references else {"text": (task.text, f"{key}.text")}
    if task.text_pair:
        used["text_pair"] = (task.text_pair, f"{key}.text_pair")
    if task.label:
        used["label"] = (task.label.column, f"{key}.label.column")
    for attribute, how in (task.attributes or {}).items():
        used[f"attribute_{attribute}"] = (how.column, f"{key}.attributes.{attribute}.column")
    used |= {f"author {column}": (column, f"{key}.authors") for column in task.authors or []}
    used |= {f"exclude {column}": (column, f"{key}.exclude") for column in task.exclude or {}}
    frames = []
    for split, table in loaded.splits.items():
        columns: dict[str, Any] = {
            "split": split,
            "row": range(1, len(next(iter(table.columns.values()))) + 1),
            "text_pair": None,
            "choices": None,
        }
        if task.entities:
            columns |= _tagged(table, task, task.entities, key)
        if task.references:
            columns |= references.columns(table, task, key)
        if task.choices and task.label:
            columns["choices"] = _choices(table, task.choices, len(task.label.names), key)
        for column, (theirs, where) in used.items():
            columns[column] = read.strings(table.columns, theirs, where, table.where)
        if task.text_pair:
            columns["text_pair"] = [text or "" for text in columns["text_pair"]]
        frames.append(pd.DataFrame(columns, dtype=object))
    return pd.concat(frames, ignore_index=True)


def _tagged(split: sources.Split, task: Task, entities: str, key: str) -> dict[str, list[Any]]:
    """Return texts that come as words with BIO tags, joined by spaces, and their tags."""
    words = read.word_lists(split.columns, task.text, f"{key}.text", split.where)
    tags = read.word_lists(split.columns, entities, f"{key}.entities", split.where)
    pairs = list(zip(words, tags, strict=True))
    if bad := sum(not _are_tags(*pair) for pair in pairs):
        raise RaptError(
            f"{split.where}: {key}.entities: got something else in {bad} of {len(pairs)} rows, "
            "expected O, B-TYPE or I-TYPE for each word."
        )
    texts = [None if text is None else " ".join(text) for text in words]
    return {"text": texts, "entities": tags}


def _choices(split: sources.Split, name: str, count: int, key: str) -> list[list[str]]:
    """Return the choices of each question."""
    column = read.column(split.columns, name, f"{key}.choices", split.where)
    choices = [[str(choice) for choice in each] if _is_list(each) else [] for each in column]
    if bad := sum(len(each) != count for each in choices):
        raise RaptError(
            f"{split.where}: {key}.choices: got something else in {bad} of {len(choices)} rows, "
            f"expected a list of {count} choices, as label.names has letters. Correct them."
        )
    return choices


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and None not in value


def _are_tags(words: list[str] | None, tags: list[str] | None) -> bool:
    if words is None or tags is None:
        return words is tags
    return len(words) == len(tags) and all(BIO.fullmatch(tag) for tag in tags)


def _attributes(rows: _Rows, task: Task) -> None:
    """Drop the rows without a valid value of an attribute, and parse numbers to be binned."""
    for attribute, how in (task.attributes or {}).items():
        column = f"attribute_{attribute}"
        rows.frame = rows.frame.assign(**{column: rows.frame[column].map(_stripped)})
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


def _most_frequent(rows: _Rows, name: str, task: Task) -> None:
    """Keep only the rows with the values that occur in the most distinct texts."""
    for attribute, how in (task.attributes or {}).items():
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
        for attribute, how in (task.attributes or {}).items()
        if isinstance(how, Bins)
    }


def _label(rows: _Rows, label: Label, key: str) -> None:
    """Turn the label column into class numbers."""
    values = rows.frame["label"].map(partial(_class, label))
    if label.threshold is not None:
        ratings = values.map(_number).astype(float)  # None becomes NaN
        if bad := int(ratings.isna().sum()):
            raise RaptError(
                f"{key}.column: got no number in {bad} of {len(values)} rows, expected one in "
                "each. Correct them, or leave such rows out with exclude."
            )
        rows.frame = rows.frame.assign(label=(ratings > label.threshold).astype("int64"))
        rows.drop(ratings == label.threshold, "rating equal to the threshold")
        return
    names = [_class(label, name) or name for name in label.names]
    lacking = values.map(read.is_missing) & ~values.isin(names)
    if bad_rows := rows.frame["row"][lacking].to_list():
        raise RaptError(
            f"{key}.column: got no class in {len(bad_rows)} of {len(values)} rows (of the file's, "
            f"{', '.join(map(str, bad_rows[:5]))}{', …' if len(bad_rows) > 5 else ''}), expected "
            "one in each. Fill them in, or delete these rows."
        )
    rows.frame = rows.frame.assign(label=_classes(values, names, key))


def _classes(values: pd.Series, names: list[str], key: str) -> pd.Series:
    """Return class numbers, from names if any value is a name, else from numbers."""
    classes: dict[str, float] = {name: number for number, name in enumerate(names)}
    distinct = set(values)
    if not distinct & set(classes):
        numbers = {value: _number(value) for value in distinct}
        classes = {v: n for v, n in numbers.items() if n is not None and n in range(len(names))}
    if unknown := distinct - set(classes):
        raise RaptError(
            f"{key}.column: got {min(map(_shown, unknown))} in {values.isin(unknown).sum()} of "
            f"{len(values)} rows, expected {', '.join(names)} or, in all rows, 0 to "
            f"{len(names) - 1}. Name all classes in label.names, or leave such rows out with "
            "exclude."
        )
    return values.map(classes).astype("int64")


def _class(label: Label, value: str | None) -> str | None:
    value = _stripped(value)
    return value.casefold() if value and label.fold_case else value


def _stripped(value: str | None) -> str | None:
    return value and value.strip()


def _cut(rows: _Rows, words: int) -> dict[str, int]:
    """Cut texts after so many words; count the texts that were longer."""
    first, cut = re.compile(rf"\s*(?:\S+\s+){{{words - 1}}}\S+(?=\s+\S)"), 0
    for column in ("text", "text_pair"):
        texts = rows.frame[column].to_list()
        begins = [first.match(text or "") for text in texts]
        cut += sum(map(bool, begins))
        short = [begin[0] if begin else text for begin, text in zip(begins, texts, strict=True)]
        rows.frame = rows.frame.assign(**{column: short})
    return {"cut": cut}


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: str | None) -> str:
    """Format a label for an error: only numbers, as a wrong column may hold names or text."""
    return repr(value) if _number(value) is not None else "a value not shown"


def _is_blank(frame: pd.DataFrame, columns: list[str]) -> pd.Series:
    """Mark the rows that have an empty value in one of these columns."""
    return frame[columns].map(lambda value: not (value and value.strip())).any(axis=1)


def _overlaps(rows: _Rows) -> None:
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
    return [f"author {column}" for column in task.authors or []]


def _authors(frame: pd.DataFrame, task: Task) -> np.ndarray:
    """Number each row's author; without author columns, each row is its own author."""
    if not task.authors:
        return np.arange(len(frame))
    told = frame[_author_columns(task)].map(_author)
    return pd.factorize(pd.Series(list(told.itertuples(index=False, name=None)), dtype=object))[0]


def _author(value: str) -> float | str:
    """Normalize a value that identifies an author: '28.0' is 28, 'Ann ' is 'ann'."""
    number = _number(value)
    return normalized(value) if number is None else number


def _divide(rows: _Rows, name: str, task: Task, seed: int) -> None:
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


def _draw(rows: _Rows, name: str, task: Task, seed: int, split: str) -> pd.DataFrame:
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
        "label": pa.array(frame["label"] if task.label else [None] * len(frame), pa.int64()),
    }
    if task.entities:
        columns["entities"] = pa.array(list(frame["entities"]), pa.list_(pa.string()))
    if task.references:
        columns["references"] = pa.array(frame["references"], pa.list_(pa.string()))
        columns["group"] = pa.array(frame["group"], pa.string())
    for attribute in task.attributes or {}:
        values = frame[f"attribute_{attribute}"]
        if attribute in edges:
            known = values.dropna()
            bins = attributes.binned(known, edges[attribute])
            values = pd.Series(bins, known.index, dtype=object).reindex(values.index)
        columns[f"attribute_{attribute}"] = pa.array(values, pa.string(), from_pandas=True)
    if task.authors:
        columns["author"] = pa.array(_authors(frame, task), pa.int64())
    return pa.table(columns)
