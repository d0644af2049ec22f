"""`rapt init my.csv`: a small experiment on the user's own file."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from rapt import params, presets
from rapt.commands.check import prepared
from rapt.data import read
from rapt.data.config import Format
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed, one_of

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
# The usual names of columns, the most likely first.
PAIRS = [("question1", "question2"), ("sentence1", "sentence2"), ("premise", "hypothesis")]
TEXTS = ["text", "sentence", "review", "content", "tweet", "moment", "message", "comment", "body"]
LABELS = ["label", "labels", "class", "target", "sentiment", "category"]
# Names of a folder's evaluation split, the most likely first.
EVALUATIONS = ["test", "validation", "valid", "dev"]
# A column with more distinct values than this does not hold classes.
MOST_VALUES = 20
# Values of an attribute in a smaller share of the rows are left out.
RARE = 0.01
# A column of texts has at least this many words per row.
SENTENCE = 4
# Share of a single file's rows in the evaluation split.
TEST_SHARE = 0.2
# Rows of each split for a first result.
SAMPLE = 400
# The preset that replaces an unedited params.yaml, and its task, which the new one replaces.
TEMPLATE, ITS_TASK = "quick", "movies"
# The attack on attributes.
ATTACK = "authorship"
EXCEL = (".xlsx", ".xls", ".xlsm", ".ods")


@dataclass(frozen=True)
class NewTask:
    """The added task, and the lines to print for the user."""

    name: str
    lines: list[str]

    def __str__(self) -> str:
        return "\n".join(self.lines)


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
    """Inspect a file, or a folder of train and test files, and add it to params.yaml as a task.

    A params.yaml that is an unedited preset becomes a small experiment on this task alone. An
    edited one keeps its content, byte for byte, and gets the task in addition.

    Columns that are not given are guessed if they are obvious: by the usual names, or for the text
    as the only column of sentences.

    Args:
        path: CSV, TSV, JSONL or Parquet; or a folder with train and test or validation files.
        name: The task's name; None: made from the file's name.
        text: The text column.
        text_pair: The second text column of pairs.
        label: The column of the class to predict.
        attributes: The columns of private attributes.
        params_path: Path of params.yaml.

    Raises:
        RaptError: One line: no such file or column, no obvious text column, rows without a class,
            too few rows, or a task of this name exists. params.yaml is then unchanged.
    """
    params_path = Path(params_path)
    content = _read(params_path)
    preset = next((known for known in presets.names() if presets.text(known) == content), None)
    name = name or _task_name(Path(path))
    if name != (valid := _name(name, "--name")):
        raise RaptError(
            f"tasks.{name}: got {name!r}, expected lower-case letters, digits and single hyphens. "
            f"Did you mean {valid!r}?"
        )
    table = _Table(_find(Path(path)))
    if text is None:
        text, guessed_pair = table.guess_texts()
        text_pair = text_pair or guessed_pair
    label = label or table.guess_label({text, text_pair})
    block = _block(table, text, text_pair, label, attributes)

    def whole(block: CommentedMap) -> tuple[str, params.Params]:
        task = _dumped(name, block)
        new = _template(task, table.where) if preset else _insert(content, "tasks", name, task)
        new = _entered(new, name, label is not None, bool(attributes))
        return new, params.validate(YAML(typ="safe").load(new))

    if table.is_divided:
        least = params.load(params_path).gate.min_rows
        if table.rows < 2 * least:
            raise RaptError(
                f"gate.min_rows: got {table.rows} rows in {table.where}, expected at least "
                f"{2 * least}, {least} for each split. Add rows, or lower it in params.yaml."
            )
        block["rows"]["test"] = min(SAMPLE, max(least, int(TEST_SHARE * table.rows)))
    p = whole(block)[1]
    summary = prepared(name, p).summary
    _sample(block, summary["rows"])
    new, p = whole(block)
    with files.atomic(params_path) as scratch:
        scratch.write_text(new, encoding="utf-8")
    return NewTask(name, [*_changed(name, p, preset), *_lines(name, p, summary, new)])


def _sample(block: CommentedMap, there: dict[str, int]) -> None:
    """Limit a task to a sample of its rows, with a comment if that leaves some out."""
    rows = {split: SAMPLE for split, count in there.items() if count > SAMPLE}
    if test := block.pop("rows").get("test"):
        rows["test"] = test
    if rows:
        block["rows"] = CommentedMap(rows)
        block["rows"].fa.set_flow_style()
        sample = f"A sample: {there['train']} rows are there to train on, null takes all."
        _comment(block, "rows", sample if "train" in rows else "Of one file's rows.", 2)


def _changed(name: str, p: params.Params, preset: str | None) -> list[str]:
    """Describe the changes to params.yaml."""
    if preset:
        return [
            f"params.yaml runs tasks.{name} alone; it was the preset {preset}, unedited: "
            f"`rapt preset {preset} --overwrite` brings that back."
        ]
    lists = [field for field, names in p.sweep if name in names]
    return [
        f"params.yaml was edited, and keeps all it had; new: tasks.{name}, in "
        f"{', '.join(f'sweep.{field}' for field in lists)}"
        + (f", and {', '.join(p.sweep.inferences)} in sweep.inferences" if "infer" in lists else "")
        + "."
    ]


def _lines(name: str, p: params.Params, summary: dict[str, Any], content: str) -> list[str]:
    """Describe the columns that are read, the lines to change for more, and the next command."""
    task, there = p.tasks[name], summary["rows"]
    taken = ", ".join(
        f"{SAMPLE} of {n} rows to {split}" if n > SAMPLE else f"{n} rows to {split}"
        for split, n in there.items()
    )
    columns = [f"text {task.text}", *([f"text_pair {task.text_pair}"] if task.text_pair else [])]
    if task.label:
        columns.append(f"label {task.label.column} ({', '.join(task.label.names)})")
    columns += [f"attribute {how.column}" for how in (task.attributes or {}).values()]
    dropped = ", ".join(f"{n} {why}" for why, n in summary["dropped"].items() if n)
    where = YAML().load(content)
    at = {
        "rows": where["tasks"][name].lc.key("rows")[0] if "rows" in where["tasks"][name] else 0,
        "seeds": where.lc.key("seeds")[0] if "seeds" in where else 0,
        "tuners": where["sweep"].lc.key("tuners")[0],
    }
    more = {
        "rows": f"tasks.{name}.rows: a sample, {taken}",
        "seeds": f"seeds: {p.seeds}; fewer than three give no interval",
        "tuners": f"sweep.tuners: {p.sweep.tuners}, sweep.probes: {p.sweep.probes}; "
        "lora, at tune_at, takes minutes a cell",
    }
    if not task.label:
        del more["tuners"]
    return [
        f"It reads {', '.join(columns)}." + (f" Left out: {dropped}." if dropped else ""),
        "For more than a first result change in params.yaml:",
        *(f"  line {at[key] + 1}: {line}" for key, line in more.items() if at[key]),
        "Next: make repro, or dvc repro. How long it takes: rapt plan.",
    ]


class _Table:
    """The user's rows, from all files."""

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
                f"{self.where}: got a first line that does not read like column names (not shown: "
                "it may be text), expected short names. Put them there."
            )
        self.rows = len(self.values(self.names[0], "column"))
        self.is_divided = "all" in paths

    def values(self, column: str, key: str) -> list[str | None]:
        """Return one column of all files; `key` names the column's role in errors."""
        return [v for s in self.splits for v in read.strings(s, column, key, self.where)]

    def guess_texts(self) -> tuple[str, str | None]:
        """Return the text column, and a pair's second one, if they are obvious."""
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
            f"{self.where}: got no column that is obviously the text, expected "
            f"{one_of(sentences or self.names)}. Name it with --text."
        )

    def guess_label(self, taken: set[str | None]) -> str | None:
        """Return the column of the class, if one has a usual name and few values."""
        names = {name.casefold(): name for name in self.names if name not in taken}
        usual = [names[name] for name in LABELS if name in names]
        return next(
            (n for n in usual if 2 <= len(set(self.values(n, "label"))) <= MOST_VALUES), None
        )

    def classes(self, column: str, key: str, *, least: float = 0) -> list[str]:
        """Return the values of a column of classes in more than a share `least` of the rows."""
        values = self.values(column, key)
        counts = Counter(value for value in values if value and not read.is_missing(value))
        common = [value for value, count in counts.items() if count > least * self.rows]
        if not 2 <= len(common) <= MOST_VALUES:
            raise RaptError(
                f"{self.where}: {key}: got {len(common)} different values in column {column!r}, "
                f"expected 2 to {MOST_VALUES}. Group them first."
            )
        return sorted(common, key=_by_number)

    def _is_sentences(self, column: str) -> bool:
        """Whether a column holds texts of several words."""
        if any(isinstance(v, list | tuple | dict | bytes) for s in self.splits for v in s[column]):
            return False
        words = sum(len((value or "").split()) for value in self.values(column, "text"))
        return words >= SENTENCE * self.rows


def _find(path: Path) -> dict[str, Path]:
    """Return the files of a task: `all`, or a folder's `train` and `test`."""
    if not path.is_dir():
        return {"all": path}
    found = {p.stem: p for p in sorted(path.iterdir()) if p.suffix in FORMATS}
    evaluations = [found[stem] for stem in EVALUATIONS if stem in found]
    if "train" not in found or not evaluations:
        raise RaptError(
            f"{path}: got no train and test files in it, expected train and one of "
            f"{', '.join(EVALUATIONS)}, ending in {', '.join(FORMATS)}. Rename them."
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
    if path.suffix.lower() in EXCEL:
        raise RaptError(
            f"{path}: got a spreadsheet, expected {', '.join(FORMATS)}. Save it as CSV (UTF-8)."
        )
    if path.suffix.lower() not in FORMATS:
        raise RaptError(not_allowed(str(path), path.suffix, FORMATS))
    kind: Any = FORMATS[path.suffix.lower()]
    return Format(type=kind)


def _by_number(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value


def _task_name(path: Path) -> str:
    return _name(path.resolve().name if path.is_dir() else path.stem, str(path))


def _name(text: str, where: str) -> str:
    """Turn a text into a name that params.yaml allows."""
    name = "-".join(re.findall(r"[a-z0-9]+", text.casefold()))
    if not name:
        raise RaptError(
            f"{where}: got nothing to make a name of, expected letters a to z or digits."
        )
    return name


def _block(
    table: _Table,
    text: str,
    text_pair: str | None,
    label: str | None,
    attributes: Sequence[str],
) -> CommentedMap:
    """Build the task's params that differ from the defaults."""
    for key, column in (("text", text), ("text_pair", text_pair)):
        if column:
            table.values(column, key)  # stops where there is no such column
    block = CommentedMap()
    paths = {split: _as_given(path) for split, path in table.paths.items()}
    block["source"] = CommentedMap(type="files", files=paths, sha256=table.sha256)
    block["format"] = _flow(type=table.format.type)
    if text != "text":
        block["text"] = text
    if text_pair:
        block["text_pair"] = text_pair
    if label:
        block["label"] = _flow(column=label, names=_quoted(table.classes(label, "label")))
        _comment(block, "label", "Names of the classes, in the order of their numbers.", 2)
    if attributes:
        block["attributes"] = CommentedMap()
        _comment(block, "attributes", "Rows with another value are dropped and counted.", 2)
    for column in attributes:
        values = _quoted(table.classes(column, "attribute", least=RARE))
        how = _flow(type="values", column=column, values=values)
        block["attributes"][_name(column, column)] = how
    block["rows"] = CommentedMap()
    return block


def _as_given(path: Path) -> str:
    """Return a path as in params.yaml: relative to the workspace, unless it was absolute."""
    return path.as_posix() if path.is_absolute() else Path(os.path.relpath(path)).as_posix()


def _quoted(values: Iterable[str]) -> list[DoubleQuotedScalarString]:
    """Quote values, so that every YAML reader keeps them as strings: "1", "no", "True"."""
    return [DoubleQuotedScalarString(value) for value in values]


def _comment(section: CommentedMap, key: str, text: str, indent: int) -> None:
    section.yaml_set_comment_before_after_key(key, before=text, indent=indent)


def _flow(**values: Any) -> CommentedMap:
    """Build a mapping that is written on one line."""
    mapping = CommentedMap(values)
    mapping.fa.set_flow_style()
    return mapping


def _read(path: Path) -> str:
    """Read the text of params.yaml and check that it can be edited."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RaptError(f"{path}: not there; run in the project's folder") from None
    try:
        root = YAML().load(content)
    except YAMLError as error:
        raise RaptError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    for section in ("tasks", "sweep"):
        found = root.get(section) if isinstance(root, CommentedMap) else None
        if not isinstance(found, CommentedMap) or not found or found.fa.flow_style():
            raise RaptError(
                f"{path}: {section}: got no section with its entries on lines of their own, "
                "expected one. Start from `rapt preset quick`."
            )
    return content


def _template(task: str, where: str) -> str:
    """Build the text of a small experiment on one task."""
    schema, _, *rest = presets.text(TEMPLATE).splitlines(keepends=True)
    title = f"# A first small result on {where}: frozen states, three methods at one η.\n"
    head, tail = "".join([schema, title, *rest]).split("\ntasks:\n")
    rest_of_file = tail[tail.index("\n\n") + 1 :]
    return head.replace(f"[{ITS_TASK}]", "[]") + "\ntasks:\n" + indent(task, "  ") + rest_of_file


def _entered(content: str, name: str, is_labelled: bool, has_attributes: bool) -> str:
    """Add a task to the lists of the sweep that it suits, in the text of params.yaml."""
    for field in ("tasks", "train", "invert", "infer"):
        if (field != "train" or is_labelled) and (field != "infer" or has_attributes):
            content = _append(content, field, name)
    root = YAML().load(content)
    if has_attributes and not root["sweep"].get("inferences"):
        if ATTACK not in root.get("attacks", {}):
            content = _insert(content, "attacks", ATTACK, f"{ATTACK}: {ATTACK}\n")
        content = _append(content, "inferences", ATTACK)
    return content


def _append(content: str, field: str, name: str) -> str:
    """Append a name to a list of the sweep, in the text of params.yaml."""
    sweep = YAML().load(content)["sweep"]
    names = sweep.get(field)
    if not isinstance(names, CommentedSeq):
        raise RaptError(f"sweep.{field}: got {names!r}, expected a list. Write [] for none.")
    lines = content.splitlines(keepends=True)
    line, column = names.lc.item(len(names) - 1) if names else (names.lc.line, names.lc.col)
    if names.fa.flow_style() or not names:  # ruamel.yaml loses the style of an empty list
        end = column + lines[line][column:].index("]")
        comma = ", " if names else ""
        lines[line] = f"{lines[line][:end]}{comma}{name}{lines[line][end:]}"
    else:
        lines.insert(line + 1, f"{' ' * names.lc.col}- {name}\n")
    return "".join(lines)


def _insert(content: str, section: str, name: str, block: str) -> str:
    """Insert an entry at the end of a section, in the text of params.yaml.

    ruamel.yaml locates the entries, and the block is inserted as text. If the file were dumped
    whole, the next section's comment would come before the new entry.
    """
    entries = YAML().load(content).get(section)
    if not isinstance(entries, CommentedMap) or entries.fa.flow_style():
        raise RaptError(f"{section}: got no entries on lines of their own, expected {name} there.")
    if name in entries:
        raise RaptError(
            f"{section}.{name}: got a name that stands in params.yaml, expected a new one. "
            "Give another with --name."
        )
    width = entries.lc.col
    lines = content.splitlines(keepends=True)
    deeper = " " * (width + 1)
    end = entries.lc.key(list(entries)[-1])[0] + 1
    while end < len(lines) and (lines[end].startswith(deeper) or not lines[end].strip()):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    return "".join([*lines[:end], indent(block, " " * width), *lines[end:]])


def _dumped(name: str, block: CommentedMap) -> str:
    """Dump a task as YAML, not indented."""
    yaml, out = YAML(), io.StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    yaml.dump(CommentedMap({name: block}), out)
    return out.getvalue()
