"""`rapt init my.csv`: add a task for a user's own file to params.yaml."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from rapt import files, params
from rapt.data import read
from rapt.errors import RaptError, not_allowed
from rapt.params import Format

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
# The usual names of columns, the likeliest first.
PAIRS = [("question1", "question2"), ("sentence1", "sentence2"), ("premise", "hypothesis")]
TEXTS = ["text", "sentence", "review", "content", "tweet", "moment", "message", "comment", "body"]
LABELS = ["label", "labels", "class", "target", "sentiment", "category"]
# Which file of a folder is the evaluation split, the likeliest first.
EVALUATIONS = ["test", "validation", "valid", "dev"]
# A column of more different values than this holds no classes.
MOST_VALUES = 20
# Values of an attribute that a smaller share of the rows holds are left out.
RARE = 0.01
# A column of texts has at least so many words a row.
SENTENCE = 4
# Of a single file, this share of the rows is the evaluation split.
TEST_SHARE = 0.2


@dataclass(frozen=True)
class NewTask:
    """The task that was added, and what to tell the user."""

    name: str
    next_steps: list[str]

    def __str__(self) -> str:
        steps = (f"{n}. {step}" for n, step in enumerate(self.next_steps, start=1))
        return "\n".join([f"added tasks.{self.name} to params.yaml; next:", *steps])


def task_block(
    path: str | Path,
    *,
    name: str | None = None,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    attributes: Sequence[str] = (),
    params_path: str | Path = "params.yaml",
) -> NewTask:
    """Inspect a file, or a folder of train and test files, and add its block to params.yaml.

    Columns that are not named are guessed where they are obvious: by the usual names, a text also
    as the only column of sentences. The rest of params.yaml stays as it is, byte for byte.

    Args:
        path: CSV, TSV, JSONL or Parquet; or a folder with train and test or validation files.
        name: The task's name; None: made from the file's name.
        text: The text column.
        text_pair: The second text column of pairs.
        label: The column of the class to predict.
        attributes: The columns of private attributes.
        params_path: Of params.yaml.

    Raises:
        RaptError: One line: no such file or column, no obvious text column, a task of this name.
    """
    content, tasks = _tasks(Path(params_path))
    name = name or _task_name(Path(path))
    if name in tasks:
        raise RaptError(f"tasks.{name}: stands in {params_path} already; give another name")
    table = _Table(_find(Path(path)))
    if text is None:
        text, guessed_pair = table.guess_texts()
        text_pair = text_pair or guessed_pair
    label = label or table.guess_label({text, text_pair})
    block = _block(table, text, text_pair, label, attributes)
    new = _insert(content, tasks, name, block)
    params.validate(YAML(typ="safe").load(new))
    with files.atomic(params_path) as scratch:
        scratch.write_text(new, encoding="utf-8")
    return NewTask(name, _next_steps(name, label, attributes))


class _Table:
    """The user's rows, of all files together."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self.paths = paths
        first = next(iter(paths.values()))
        data = {split: _bytes(path) for split, path in paths.items()}
        self.sha256 = {split: hashlib.sha256(d).hexdigest() for split, d in data.items()}
        self.format = _format(first)
        self.where = str(first)
        self.splits = [read.table(data[s], self.format, str(paths[s])) for s in paths]
        self.names = list(self.splits[0])
        if self.format.type in read.DELIMITERS and not read.is_header(self.names):
            raise RaptError(
                f"{self.where}: the first line does not read like column names (not shown: it may "
                "be text); begin the file with a line of short names"
            )
        self.rows = len(self.values(self.names[0], "column"))

    def values(self, column: str, key: str) -> list[str | None]:
        """One column of all files; `key` says in an error what the column was given for."""
        return [v for s in self.splits for v in read.strings(s, column, key, self.where)]

    def guess_texts(self) -> tuple[str, str | None]:
        """The text column, and the second one of pairs, where they are obvious."""
        names = {name.casefold(): name for name in self.names}
        for one, other in PAIRS:
            if one in names and other in names:
                return names[one], names[other]
        for usual in TEXTS:
            if usual in names:
                return names[usual], None
        sentences = [name for name in self.names if self._is_sentences(name)]
        if len(sentences) == 1:
            return sentences[0], None
        raise RaptError(
            f"{self.where}: no column is obviously the text, name it; "
            f"allowed: {', '.join(sentences or self.names)}"
        )

    def guess_label(self, taken: set[str | None]) -> str | None:
        """The column of the class, where one has a usual name and holds classes."""
        names = {name.casefold(): name for name in self.names if name not in taken}
        usual = [names[name] for name in LABELS if name in names]
        return next(
            (n for n in usual if 2 <= len(set(self.values(n, "label"))) <= MOST_VALUES), None
        )

    def classes(self, column: str, key: str, *, least: float = 0) -> list[str]:
        """The values of a column of classes that more than a share `least` of the rows hold."""
        counts = Counter(value for value in self.values(column, key) if value)
        common = [value for value, count in counts.items() if count > least * self.rows]
        if not 2 <= len(common) <= MOST_VALUES:
            raise RaptError(
                f"{self.where}: {key}: column {column!r} holds {len(common)} different values, "
                f"allowed: 2 to {MOST_VALUES}; group them first"
            )
        return sorted(common, key=_by_number)

    def _is_sentences(self, column: str) -> bool:
        """Whether a column holds text of several words a row."""
        if any(isinstance(v, list | tuple | dict | bytes) for s in self.splits for v in s[column]):
            return False
        words = sum(len((value or "").split()) for value in self.values(column, "text"))
        return words >= SENTENCE * self.rows


def _find(path: Path) -> dict[str, Path]:
    """The files of a task: `all`, or `train` and `test` of a folder."""
    if not path.is_dir():
        return {"all": path}
    found = {p.stem: p for p in sorted(path.iterdir()) if p.suffix in FORMATS}
    evaluations = [found[stem] for stem in EVALUATIONS if stem in found]
    if "train" not in found or not evaluations:
        raise RaptError(
            f"{path}: no train and test files in it, allowed: train and one of "
            f"{', '.join(EVALUATIONS)}, ending in {', '.join(FORMATS)}"
        )
    labelled = (p for p in evaluations if not _is_hidden(p))
    return {"train": found["train"], "test": next(labelled, evaluations[0])}


def _is_hidden(path: Path) -> bool:
    """Whether a split's labels are withheld: -1, as in the test splits of GLUE."""
    table = _Table({"test": path})
    return any(set(table.values(name, "label")) == {"-1"} for name in LABELS if name in table.names)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RaptError(f"{path}: {error.strerror}") from None


def _format(path: Path) -> Format:
    if path.suffix.lower() not in FORMATS:
        raise RaptError(not_allowed(str(path), path.suffix, FORMATS))
    kind: Any = FORMATS[path.suffix.lower()]
    return Format(type=kind, names=None, skip_rows=0, quoted=kind in read.DELIMITERS)


def _by_number(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value


def _task_name(path: Path) -> str:
    return _name(path.resolve().name if path.is_dir() else path.stem, str(path))


def _name(text: str, where: str) -> str:
    """A name as params.yaml allows it."""
    name = "-".join(re.findall(r"[a-z0-9]+", text.casefold()))
    if not name:
        raise RaptError(f"{where}: no name to make of it, allowed: with letters a to z or digits")
    return name


def _block(
    table: _Table,
    text: str,
    text_pair: str | None,
    label: str | None,
    attributes: Sequence[str],
) -> CommentedMap:
    """The task's params, in the order of the shipped ones."""
    for key, column in (("text", text), ("text_pair", text_pair)):
        if column:
            table.values(column, key)  # stops where there is no such column
    block = CommentedMap()
    paths = {split: _as_given(path) for split, path in table.paths.items()}
    block["source"] = CommentedMap(type="files", files=paths, sha256=table.sha256)
    block["format"] = CommentedMap(table.format.model_dump())
    block["text"], block["text_pair"], block["entities"] = text, text_pair, None
    block["label"] = None
    if label:
        names = _quoted(table.classes(label, "label"))
        block["label"] = CommentedMap(column=label, names=names, threshold=None)
        _comment(block["label"], "names", "Names of the classes, in the order of their numbers.", 4)
    block["attributes"] = CommentedMap() if attributes else None
    for column in attributes:
        values = _quoted(table.classes(column, "attribute", least=RARE))
        attribute = CommentedMap(type="values", column=column, values=values)
        _comment(attribute, "values", "Rows with another value are dropped and counted.", 6)
        block["attributes"][_name(column, column)] = attribute
    block["authors"] = None
    _comment(block, "authors", "Columns that tell authors apart: none is in both splits.", 2)
    block["exclude"] = None
    test = max(1, int(TEST_SHARE * table.rows)) if "all" in table.paths else None
    block["rows"] = CommentedMap(train=None, test=test)
    _comment(block, "rows", f"null: all; the source has {table.rows} rows.", 2)
    return block


def _as_given(path: Path) -> str:
    """A path as params.yaml holds it: from the workspace, unless it was given from the root."""
    return path.as_posix() if path.is_absolute() else Path(os.path.relpath(path)).as_posix()


def _quoted(values: Iterable[str]) -> list[DoubleQuotedScalarString]:
    """Values that stay strings for every reader of YAML: "1", "no", "True"."""
    return [DoubleQuotedScalarString(value) for value in values]


def _comment(section: CommentedMap, key: str, text: str, indent: int) -> None:
    section.yaml_set_comment_before_after_key(key, before=text, indent=indent)


def _tasks(path: Path) -> tuple[str, CommentedMap]:
    """The text of params.yaml, and its tasks as they stand there."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RaptError(f"{path}: not there; run in the project's folder") from None
    try:
        root = YAML().load(content)
    except YAMLError as error:
        raise RaptError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    tasks = root.get("tasks") if isinstance(root, CommentedMap) else None
    if not isinstance(tasks, CommentedMap) or not tasks or tasks.fa.flow_style():
        raise RaptError(f"{path}: tasks: a section of one task on its own lines is needed")
    return content, tasks


def _insert(content: str, tasks: CommentedMap, name: str, block: CommentedMap) -> str:
    """The text of params.yaml with one more task, after the last.

    ruamel.yaml says where the tasks stand and writes the block. The text is put in as text: dumped
    whole, the file would have the next section's comment before the new task.
    """
    indent = tasks.lc.col
    lines = content.splitlines(keepends=True)
    deeper = " " * (indent + 1)
    end = tasks.lc.key(list(tasks)[-1])[0] + 1
    while end < len(lines) and (lines[end].startswith(deeper) or not lines[end].strip()):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    yaml, out = YAML(), io.StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    yaml.Representer = _Representer
    yaml.dump(CommentedMap({name: block}), out)
    added = [" " * indent + line for line in out.getvalue().splitlines(keepends=True)]
    return "".join([*lines[:end], *added, *lines[end:]])


class _Representer(RoundTripRepresenter):
    """Writes null as `null`, as params.yaml does, and not as nothing."""

    def represent_none(self, data: None) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _Representer.represent_none)


def _next_steps(name: str, label: str | None, attributes: Sequence[str]) -> list[str]:
    lists = ["sweep.tasks", *(["sweep.train"] if label else [])]
    lists += ["sweep.infer"] if attributes else []
    return [
        f"look at tasks.{name} in params.yaml: are the columns and the classes right?",
        f"add {name} to {', '.join(lists)}",
        "rapt check",
        "dvc repro",
    ]
