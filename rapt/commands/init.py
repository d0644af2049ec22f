"""`rapt init my.csv`: a small experiment on the user's own file."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from textwrap import indent
from typing import Any

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from slugify import slugify

from rapt import params, presets
from rapt.commands.check import prepared
from rapt.data.config import Gate
from rapt.data.examples import segments
from rapt.data.inspection import LABEL, LEAST_OF_A_CLASS, UserTable, find
from rapt.data.prepare import Prepared, prepare
from rapt.data.read import shown_columns
from rapt.paths import PARAMS, STATE
from rapt.tasks.classify import Classify
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed

TEXT = "text"  # the column that is read where no other is named
# Share of a single file's rows in the evaluation split.
TEST_SHARE = 0.2
# Rows of each split for a first result: fewer of long texts, more of many classes.
SAMPLE, SAMPLE_WORDS, SAMPLE_OF_A_CLASS = 400, 40_000, 20
# Words of a text of which the template's model reads no more, as a word has a token or more.
READ_WORDS = 128
# What --full adds to the first result: LoRA, at the template's η.
FULL = {"tuners: []": "tuners: [lora]", "tune_at: []": "tune_at: [75]"}
# The preset that replaces an unedited params.yaml, and its task, which the new one replaces.
TEMPLATE, ITS_TASK = "quick", "movies"
CASES = ("fold", "keep")
# The experiment on one file alone that was written last, to see whether it was edited since.
WROTE = STATE / "init.yaml"
# The attack on attributes.
ATTACK = "authorship"


def task_block(
    path: str | Path,
    *,
    name: str | None = None,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    attributes: Sequence[str] | None = None,
    authors: Sequence[str] | None = None,
    min_class: int = 0,
    label_case: str | None = None,
    header: bool = True,
    delimiter: str | None = None,
    encoding: str | None = None,
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
    if label_case not in (None, *CASES):
        raise RaptError(not_allowed("--label-case", label_case, CASES))
    options = {"header": header, "delimiter": delimiter, "encoding": encoding}
    table = UserTable(find(path), options)
    label = label or (LABEL if LABEL in table.names else None)
    columns, said = _columns(
        table,
        text,
        text_pair,
        label,
        attributes or (),
        authors or (),
        min_class=min_class,
        label_case=label_case,
    )
    task = _source(table) + columns

    own = WROTE.is_file() and WROTE.read_text(encoding="utf-8") == content
    own = own and name in YAML(typ="safe").load(content)["tasks"]
    alone = own or preset is not None

    def entered(rows: str) -> tuple[str, params.Params]:
        """Make the new text and its params, with these rows of the task."""
        block = f"{name}:\n{indent(task + rows, '  ')}"
        if alone:
            new = _template(block, table.where, full=full)
        else:
            new = _insert(content, "tasks", name, block)
        new = _entered(new, name, label is not None, bool(attributes))
        return new, params.validate(YAML(typ="safe").load(new))

    least = (Gate() if alone else params.load(PARAMS).gate).min_rows
    test = None
    if table.is_divided or authors:
        one = entered(_rows({"test": 1}))[1]
        test = _test_rows(prepare(name, one.tasks[name], one.seed), table.where, least, full)
    undrawn = entered(_rows({"test": test} if test else {}))[1]
    found = prepared(name, undrawn, LEAST_OF_A_CLASS)
    there = found.summary["rows"]
    most = max(least, _sample(found))
    sample = {} if full else {split: most for split, n in there.items() if n > most}
    if test:
        sample["test"] = min(test, sample.get("test", test))
    new, p = entered(_rows(sample, there["train"]))
    prepared(name, p, LEAST_OF_A_CLASS)
    for place in (PARAMS, *([WROTE] if alone else [])):
        with files.atomic(place) as scratch:
            scratch.write_text(new, encoding="utf-8")
    return "\n".join([_changed(name, p, preset, own), *_lines(name, p, found, said, full)])


def _sample(found: Prepared) -> int:
    """Return the rows of a split for a first result."""
    train = found.tables["train"]
    texts = list(chain.from_iterable(segments(train)))
    words = sum(len(text.split()) for text in texts) / len(train)
    seen, enough = Counter[Any](), 0  # the first rows with enough of each class
    for row, label in enumerate(train["label"].to_pylist(), 1):
        seen[label] += 1
        enough = row if seen[label] == LEAST_OF_A_CLASS else enough
    return max(
        min(SAMPLE, int(SAMPLE_WORDS / words)),
        SAMPLE_OF_A_CLASS * len(seen),
        min(enough, 10 * SAMPLE),
    )


def _name(text: str, key: str) -> str:
    """Turn a text of any script into a name that params.yaml allows."""
    name = slugify(text)
    if not name:
        raise RaptError(f"{key}: got nothing to make a name of, expected letters or digits.")
    return name


def _test_rows(every: Prepared, where: str, least: int, full: bool) -> int:
    """Return the number of evaluation rows of rows that are divided here."""
    rows = sum(every.summary["rows"].values()) + every.summary["dropped"]["not drawn"]
    if rows < 2 * least:
        dropped = f" ({every.dropped})" if every.dropped else ""
        raise RaptError(
            f"gate.min_rows: got {rows} rows in {where}{dropped}, "
            f"expected at least {2 * least}, {least} for each split. Add rows, or lower it in "
            "params.yaml."
        )
    share = max(least, int(TEST_SHARE * rows))
    return share if full else min(max(SAMPLE, least), share)


def _source(table: UserTable) -> str:
    """Format where the task's rows are: paths relative to the workspace, unless absolute."""
    lines = ["source:", "  type: files", "  files:"]
    for split, parts in table.paths.items():
        paths = [(p if p.is_absolute() else Path(os.path.relpath(p))).as_posix() for p in parts]
        lines.append(f"    {split}: {_quoted(paths if paths[1:] else paths[0])}")
    lines += ["  sha256:", *(f"    {split}: {sha256}" for split, sha256 in table.sha256.items())]
    format = table.format.model_dump(exclude_defaults=True)
    return "\n".join([*lines, f"format: {_quoted(format)}\n"])


def _columns(
    table: UserTable,
    text: str | None,
    text_pair: str | None,
    label: str | None,
    attributes: Sequence[str],
    authors: Sequence[str],
    *,
    min_class: int,
    label_case: str | None,
) -> tuple[str, list[str]]:
    """Format the task's columns that differ from the defaults, and say what they leave out."""
    if text is None and TEXT not in table.names:
        raise RaptError(
            f"{table.where}: --text: got none, and no column {TEXT!r}, expected "
            f"{shown_columns(table.names)}. Name the column of the texts with --text."
        )
    text = text or TEXT
    texts = table.values(text, "text")  # stops where there is no such column
    lines, said = [f"text: {_quoted(text)}"] if text != TEXT else [], []
    if text_pair:
        texts += table.values(text_pair, "text_pair")
        lines.append(f"text_pair: {_quoted(text_pair)}")
    longer = sum(len((one or "").split()) > READ_WORDS for one in texts)
    if longer:
        lines += [
            "# A text is cut after so many words: the model reads no more.",
            f"cut_words: {READ_WORDS}",
        ]
        said.append(
            f"{longer} texts are cut after {READ_WORDS} words, as the model reads no more "
            f"(cut_words)."
        )
    if label:
        names, others = table.classes(label, least=min_class, case=label_case)
        lines.append("# Names of the classes, in the order of their numbers.")
        folded = ", fold_case: true" if label_case == "fold" else ""
        lines.append(f"label: {{column: {_quoted(label)}, names: {_quoted(names)}{folded}}}")
        spaced = sum((v or "") != (v or "").strip() for v in table.values(label, "label"))
        if spaced:
            said.append(f"White space around {spaced} labels does not count.")
        if others:
            lines += [
                "# Classes that are left out.",
                f"exclude: {{{_quoted(label)}: {_quoted(others)}}}",
            ]
            said.append(f"{len(others)} classes of fewer than {min_class} rows are left out.")
    if attributes:
        what = "An attacker infers" if label else "Rows with another value are dropped and counted:"
        lines += [f"# {what} these.", "attributes:"]
    for column in attributes:
        table.values(column, "attribute")
        targets, left = table.attribute(column)
        lines.append(f"  {_name(column, '--attribute')}: {_quoted(targets)}")
        said.append(f"An attacker infers {column}: {left}.")
    for column in authors:
        table.values(column, "authors")
    if authors:
        lines += ["# None of them is in both splits.", f"authors: {_quoted(list(authors))}"]
    elif several := table.repeated([text, text_pair or "", label or "", *attributes]):
        shown = ", ".join(f"{name} ({count} values)" for name, count in several.items())
        said.append(
            f"Values repeat in {shown}: if one tells authors apart, add --authors NAME, or the "
            "evaluation texts are of authors whose other texts are tuned on."
        )
    return "".join(f"{line}\n" for line in lines), said


def _rows(rows: dict[str, int], there: int = 0) -> str:
    """Format the rows that are drawn, with a comment on those that are there to train on."""
    if not rows:
        return ""
    sample = f"A sample: {there} rows are there to train on, null takes all."
    drawn = ", ".join(f"{split}: {count}" for split, count in rows.items())
    return f"# {sample if 'train' in rows else 'Of the rows of one file.'}\nrows: {{{drawn}}}\n"


def _quoted(value: Any) -> str:
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


def _lines(name: str, p: params.Params, found: Prepared, said: list[str], full: bool) -> list[str]:
    """Describe what is read, what runs of it, and the next command."""
    task, there = p.tasks[name], found.summary["rows"]
    assert isinstance(task, Classify)  # no other kind is written here
    taken = ", ".join(
        f"{getattr(task.rows, split) or n} of {n} rows to {split}" for split, n in there.items()
    )
    columns = [f"text {task.text}", *([f"text_pair {task.text_pair}"] if task.text_pair else [])]
    if task.label:
        columns.append(f"label {task.label.column} ({', '.join(task.label.names)})")
    columns += [f"attribute {how.column}" for how in task.inferred.values()]
    tuners = " and ".join([*p.sweep.tuners, *p.sweep.probes])
    tuned = f"; tuned with {tuners}" if task.label else ""
    first = "" if full else "A first result: "
    if halves := found.summary.get("halves"):
        said = [*said, f"{halves} halves of surrogate pairs became U+FFFD."]
    return [
        f"It reads {', '.join(columns)}."
        + (f" Left out: {found.dropped}." if found.dropped else ""),
        *said,
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
            "Give another with --name, or begin anew: `rapt preset demo --overwrite`."
        )
    lines = content.splitlines(keepends=True)
    lines.insert(root.lc.key(section)[0] + 1, indent(block, " " * entries.lc.col))
    return "".join(lines)
