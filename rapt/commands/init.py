"""`rapt init my.csv`: a small experiment on the user's own file."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import Any

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from rapt import params, presets
from rapt.commands.check import prepared
from rapt.data import read
from rapt.data.config import SUFFIXES, Format, Gate
from rapt.paths import PARAMS
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed

# The columns that are read where no others are named.
TEXT, LABEL = "text", "label"
# Names of a folder's evaluation split, the most likely first.
EVALUATIONS = ["test", "validation", "valid", "dev"]
# A column with more distinct values than this does not hold classes.
MOST_VALUES = 20
# Values of an attribute in a smaller share of the rows are left out.
RARE = 0.01
# Share of a single file's rows in the evaluation split.
TEST_SHARE = 0.2
# Rows of each split for a first result.
SAMPLE = 400
# What --full adds to the first result: LoRA, at the template's η.
FULL = {"tuners: []": "tuners: [lora]", "tune_at: []": "tune_at: [75]"}
# The preset that replaces an unedited params.yaml, and its task, which the new one replaces.
TEMPLATE, ITS_TASK = "quick", "movies"
# The attack on attributes.
ATTACK = "authorship"
EXCEL = (".xlsx", ".xls", ".xlsm", ".ods")


def task_block(
    path: str | Path,
    *,
    name: str | None = None,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    attributes: Sequence[str] | None = None,
    full: bool = False,
) -> str:
    """Inspect a file, or a folder of train and test files, and add it to params.yaml as a task.

    See `rapt init --help` for the options.

    A params.yaml that is an unedited preset, or what this wrote of the same task, becomes an
    experiment on this task alone. An edited one keeps its content, byte for byte, and gets the task
    in addition.

    Columns that are not given are called `text` and, if there is one, `label`.

    Returns:
        What was read, and what to do next, for the user.

    Raises:
        RaptError: One line: no such file or column, rows without a class, too few rows, or a task
            of this name exists. params.yaml is then unchanged.
    """
    path, content = Path(path), _read(PARAMS)
    preset = next((known for known in presets.names() if presets.text(known) == content), None)
    name = name or _name(path.resolve().name if path.is_dir() else path.stem, str(path))
    if name != (valid := _name(name, "--name")):
        raise RaptError(
            f"tasks.{name}: got {name!r}, expected lower-case letters, digits and single hyphens. "
            f"Did you mean {valid!r}?"
        )
    table = _Table(_find(path))
    label = label or (LABEL if LABEL in table.names else None)
    task = _source(table) + _columns(table, text or TEXT, text_pair, label, attributes or ())

    def made(full: bool, alone: bool) -> tuple[str, params.Params, dict[str, Any]]:
        """Make the new text, its params, and the summary of the task's rows."""

        def entered(rows: str) -> tuple[str, params.Params]:
            block = f"{name}:\n{indent(task + rows, '  ')}"
            if alone:
                new = _template(block, table.where, full=full)
            else:
                new = _insert(content, "tasks", name, block)
            new = _entered(new, name, label is not None, bool(attributes))
            return new, params.validate(YAML(typ="safe").load(new))

        least = (Gate() if alone else params.load(PARAMS).gate).min_rows
        test = _test_rows(table, least, full) if table.is_divided else None
        summary = prepared(name, entered(_rows({"test": test} if test else {}))[1]).summary
        there = summary["rows"]
        sample = {} if full else {split: SAMPLE for split, n in there.items() if n > SAMPLE}
        if test:
            sample["test"] = test
        return *entered(_rows(sample, there["train"])), summary

    own = False
    if f"\n  {name}:\n" in content:
        with suppress(RaptError):  # it asks for more rows than there are, and so wrote nothing
            own = any(content == made(before, True)[0] for before in (False, True))
    new, p, summary = made(full, alone=own or preset is not None)
    with files.atomic(PARAMS) as scratch:
        scratch.write_text(new, encoding="utf-8")
    return "\n".join([_changed(name, p, preset, own), *_lines(name, p, summary, full)])


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

    def classes(self, column: str, key: str, *, least: float = 0) -> list[str]:
        """Return the values of a column of classes in more than a share `least` of the rows."""
        values = self.values(column, key)
        counts = Counter(value for value in values if value and not read.is_missing(value))
        common = [value for value, count in counts.items() if count > least * self.rows]
        if not 2 <= len(common) <= MOST_VALUES:
            hint = (
                "Group them first."
                if common[2:]
                else "Add rows with others, or name another column."
            )
            raise RaptError(
                f"{self.where}: {key}: got {len(common)} different values in column {column!r}, "
                f"expected 2 to {MOST_VALUES}. {hint}"
            )
        return sorted(common, key=_by_number)


def _find(path: Path) -> dict[str, Path]:
    """Return the files of a task: `all`, or a folder's `train` and `test`."""
    if not path.is_dir():
        return {"all": path}
    found = {p.stem: p for p in sorted(path.iterdir()) if p.suffix in SUFFIXES}
    evaluations = [found[stem] for stem in EVALUATIONS if stem in found]
    if "train" not in found or not evaluations:
        raise RaptError(
            f"{path}: got no train and test files in it, expected train and one of "
            f"{', '.join(EVALUATIONS)}, ending in {', '.join(SUFFIXES)}. Rename them."
        )
    labelled = (p for p in evaluations if not _is_hidden(p))
    return {"train": found["train"], "test": next(labelled, evaluations[0])}


def _is_hidden(path: Path) -> bool:
    """Whether a split's labels are withheld: -1, as in the test splits of GLUE."""
    table = _Table({"test": path})
    return LABEL in table.names and set(table.values(LABEL, "label")) == {"-1"}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RaptError(f"{path}: got {error.strerror}, expected a file with rows.") from None


def _format(path: Path) -> Format:
    if path.suffix.lower() in EXCEL:
        raise RaptError(
            f"{path}: got a spreadsheet, expected {', '.join(SUFFIXES)}. Save it as CSV (UTF-8)."
        )
    if path.suffix.lower() not in SUFFIXES:
        raise RaptError(not_allowed(str(path), path.suffix, SUFFIXES))
    kind: Any = SUFFIXES[path.suffix.lower()]
    return Format(type=kind)


def _by_number(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value


def _name(text: str, where: str) -> str:
    """Turn a text into a name that params.yaml allows."""
    name = "-".join(re.findall(r"[a-z0-9]+", text.casefold()))
    if not name:
        raise RaptError(
            f"{where}: got nothing to make a name of, expected letters a to z or digits."
        )
    return name


def _test_rows(table: _Table, least: int, full: bool) -> int:
    """Return the number of evaluation rows of a single file."""
    if table.rows < 2 * least:
        raise RaptError(
            f"gate.min_rows: got {table.rows} rows in {table.where}, expected at least "
            f"{2 * least}, {least} for each split. Add rows, or lower it in params.yaml."
        )
    share = max(least, int(TEST_SHARE * table.rows))
    return share if full else min(SAMPLE, share)


def _source(table: _Table) -> str:
    """Format where the task's rows are: paths relative to the workspace, unless absolute."""
    paths = {
        split: path if path.is_absolute() else Path(os.path.relpath(path))
        for split, path in table.paths.items()
    }
    lines = ["source:", "  type: files", "  files:"]
    lines += [f"    {split}: {_quoted(path.as_posix())}" for split, path in paths.items()]
    lines += ["  sha256:", *(f"    {split}: {sha256}" for split, sha256 in table.sha256.items())]
    return "\n".join([*lines, f"format: {{type: {table.format.type}}}\n"])


def _columns(
    table: _Table,
    text: str,
    text_pair: str | None,
    label: str | None,
    attributes: Sequence[str],
) -> str:
    """Format the task's columns that differ from the defaults."""
    for key, column in (("text", text), ("text_pair", text_pair)):
        if column:
            table.values(column, key)  # stops where there is no such column
    lines = [f"text: {_quoted(text)}"] if text != TEXT else []
    if text_pair:
        lines.append(f"text_pair: {_quoted(text_pair)}")
    if label:
        lines.append("# Names of the classes, in the order of their numbers.")
        names = _quoted(table.classes(label, "label"))
        lines.append(f"label: {{column: {_quoted(label)}, names: {names}}}")
    if attributes:
        lines += ["# Rows with another value are dropped and counted.", "attributes:"]
    for column in attributes:
        values = _quoted(table.classes(column, "attribute", least=RARE))
        how = f"{{type: values, column: {_quoted(column)}, values: {values}}}"
        lines.append(f"  {_name(column, column)}: {how}")
    return "".join(f"{line}\n" for line in lines)


def _rows(rows: dict[str, int], there: int = 0) -> str:
    """Format the rows that are drawn, with a comment on those that are there to train on."""
    if not rows:
        return ""
    sample = f"A sample: {there} rows are there to train on, null takes all."
    drawn = ", ".join(f"{split}: {count}" for split, count in rows.items())
    return f"# {sample if 'train' in rows else 'Of the rows of one file.'}\nrows: {{{drawn}}}\n"


def _quoted(value: str | list[str]) -> str:
    """Quote, so that every YAML reader keeps strings: "1", "no", "True"."""
    return json.dumps(value, ensure_ascii=False)


def _changed(name: str, p: params.Params, preset: str | None, own: bool) -> str:
    """Describe the changes to params.yaml."""
    if own:
        return f"params.yaml still runs tasks.{name} alone."
    if preset:
        return (
            f"params.yaml runs tasks.{name} alone; it was the preset {preset}, unedited: "
            f"`rapt preset {preset} --overwrite` brings that back."
        )
    lists = [field for field, names in p.sweep if name in names]
    attacks = f", and {', '.join(p.sweep.inferences)} in sweep.inferences"
    return (
        f"params.yaml was edited, and keeps all it had; new: tasks.{name}, in "
        f"{', '.join(f'sweep.{field}' for field in lists)}{attacks if 'infer' in lists else ''}."
    )


def _lines(name: str, p: params.Params, summary: dict[str, Any], full: bool) -> list[str]:
    """Describe what is read, what runs of it, and the next command."""
    task, there = p.tasks[name], summary["rows"]
    taken = ", ".join(
        f"{getattr(task.rows, split) or n} of {n} rows to {split}" for split, n in there.items()
    )
    columns = [f"text {task.text}", *([f"text_pair {task.text_pair}"] if task.text_pair else [])]
    if task.label:
        columns.append(f"label {task.label.column} ({', '.join(task.label.names)})")
    columns += [f"attribute {how.column}" for how in (task.attributes or {}).values()]
    dropped = ", ".join(f"{n} {why}" for why, n in summary["dropped"].items() if n)
    tuners = " and ".join([*p.sweep.tuners, *p.sweep.probes])
    tuned = f"; tuned with {tuners}" if task.label else ""
    first = "" if full else "A first result: "
    return [
        f"It reads {', '.join(columns)}." + (f" Left out: {dropped}." if dropped else ""),
        f"{first}{taken}{tuned}.",
        *([] if full else ["In full: the same command with --full."]),
        "Next: make repro, or dvc repro. How long it takes: rapt plan.",
    ]


def _read(path: Path) -> str:
    """Read the text of params.yaml and check that it can be edited."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RaptError(
            f"{path}: got no such file, expected a project's params. Run in its folder."
        ) from None
    try:
        root = YAML().load(content)
    except YAMLError as error:
        raise RaptError(params.not_yaml(path, error)) from None
    for section in ("tasks", "sweep"):
        found = root.get(section) if isinstance(root, CommentedMap) else None
        if not isinstance(found, CommentedMap) or not found or found.fa.flow_style():
            raise RaptError(
                f"{path}: {section}: got no section with its entries on lines of their own, "
                "expected one. Start from `rapt preset quick`."
            )
    return content


def _template(task: str, where: str, *, full: bool) -> str:
    """Build the text of an experiment on one task: a small one, or with LoRA."""
    schema, _, *rest = presets.text(TEMPLATE).splitlines(keepends=True)
    title = f"# {'All' if full else 'A first small result'} of {where}: two methods at one η.\n"
    head, tail = "".join([schema, title, *rest]).split("\ntasks:\n")
    for small, large in FULL.items() if full else ():
        head = head.replace(small, large)
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
    names = YAML().load(content)["sweep"].get(field)
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
    """Insert an entry at the top of a section, in the text of params.yaml, which keeps all else."""
    root = YAML().load(content)
    entries = root.get(section)
    if not isinstance(entries, CommentedMap) or entries.fa.flow_style():
        raise RaptError(f"{section}: got no entries on lines of their own, expected {name} there.")
    if name in entries:
        raise RaptError(
            f"{section}.{name}: got a name that stands in params.yaml, expected a new one. "
            "Give another with --name."
        )
    lines = content.splitlines(keepends=True)
    lines.insert(root.lc.key(section)[0] + 1, indent(block, " " * entries.lc.col))
    return "".join(lines)
