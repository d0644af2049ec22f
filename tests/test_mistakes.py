"""Common mistakes: each ends in one line that says how to fix it, and in status 2."""

import errno
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rapt import cli, defaults
from rapt.commands.init import task_block
from rapt.text.table import EmbeddingTable
from tests.conftest import ROOT

Patch = pytest.MonkeyPatch
KEPT: list[int] = []  # files that are open until the test ends
TASK = """\
    source: {type: files, files: {all: my.csv}}
    format: {type: csv}
    label: {column: label, names: [good, bad]}
    rows: {test: 60}
"""
CHECK, INIT, FLOW = ("check",), ("init", "my.csv", "--name", "mine"), ("flow",)
SERVE = ("serve", "--adapter", "models", "--port", "0")
NO_WORDS = (
    "tasks.mine.text: got no letter or digit in 200 texts, expected words. Name the column that "
    "holds them."
)
PRIVATIZE = ("privatize", "my.csv", "out.csv", "--eta")
ETA = "expected a number above 0, as 75 or 62.5. Find one by rapt calibrate."
NO_CLASS = (
    ".label.column: got no class in 2 of 200 rows (of the file's, 5, 10), expected one in each. "
    "Fill them in, or delete these rows."
)
NOT_UTF_8 = (
    "my.csv: line 2: got another encoding, expected UTF-8. Save it as UTF-8, or set encoding as "
    "'cp1252' (--encoding, or encoding in the task's format)."
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: Patch, table: EmbeddingTable) -> Iterator[None]:
    """A project in which `rapt flow` runs in this process."""
    monkeypatch.chdir(tmp_path)
    experiment()
    Path("presets").symlink_to(ROOT / "presets")
    Path("tiny").symlink_to(table.folder)
    write("pipelines/__main__.py", "")
    monkeypatch.setattr(os, "execv", flow)
    defaults.project.cache_clear()
    yield
    defaults.project.cache_clear()
    while KEPT:
        os.close(KEPT.pop())


def experiment() -> None:
    """Write the preset quick, on 200 texts of a file."""
    preset = (ROOT / "presets/quick.yaml").read_text()
    begin, end = preset.index("    source:"), preset.index("\nembeddings:")
    write("params.yaml", preset[:begin] + TASK + preset[end:])
    write("my.csv", rows())


def flow(_: str, command: list[str]) -> None:
    from pipelines.__main__ import run

    sys.argv = ["rapt flow", *command[3:]]
    run()


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def rows(count: int = 200, text: str = "secret {}", **labels: str) -> str:
    classes = (labels.get(f"at{i}", ["good", "bad"][i % 2]) for i in range(count))
    lines = (f"{text.format(i)},{label}" for i, label in enumerate(classes))
    return "\n".join(["text,label", *lines])


def replace(old: str, new: str) -> None:
    text = Path("params.yaml").read_text()
    assert old in text
    write("params.yaml", text.replace(old, new, 1))


def edit(old: str, new: str) -> Callable[[Patch], None]:
    return lambda _: replace(old, new)


def data(text: str) -> Callable[[Patch], None]:
    return lambda _: write("my.csv", text)


def nothing(_: Patch) -> None:
    pass


def latin(_: Patch) -> None:
    Path("my.csv").write_bytes("text,label\ncaf\xe9,good\n".encode("latin-1"))


def taken(patch: Patch) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    patch.setattr(sys, "argv", [*sys.argv, "--port", str(listener.getsockname()[1])])
    KEPT.append(listener.detach())


def changed(_: Patch) -> None:
    task_block("my.csv", name="mine")
    write("my.csv", rows(201))


def full(patch: Patch) -> None:
    """Make writing fail as on a full disk, by an error without a file name."""

    def write_text(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(Path, "write_text", write_text)


def in_git(patch: Patch) -> None:
    from dvc import lock

    patch.setattr(lock, "DEFAULT_TIMEOUT", 0)
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    subprocess.run(["git", "init", "-q"], check=True)
    write(".dvc/config", "")
    write(".dvc/.gitignore", "/tmp\n")
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", *identity, "commit", "-q", "-m", "all"], check=True)


def held(path: str, content: str) -> None:
    """Hold a lock until the test ends."""
    write(path, content)
    KEPT.append(os.open(path, os.O_RDWR))
    fcntl.flock(KEPT[-1], fcntl.LOCK_EX)


def dirty(patch: Patch) -> None:
    in_git(patch)
    write("stages/new.py", "")


def dvc_starts(patch: Patch) -> None:
    """Hold the lock that `dvc repro` holds between two stages."""
    in_git(patch)
    held(".dvc/tmp/lock", "")


def dvc_runs(patch: Patch) -> None:
    """Record a write as `dvc repro` does while a stage runs."""
    write("dvc.yaml", "stages: {validate: {cmd: make it, outs: [data/params.json]}}\n")
    in_git(patch)
    by = {"pid": os.getpid(), "cmd": "dvc repro"}
    record = {"write": {str(Path("data/params.json").absolute()): by}, "read": {}}
    write(".dvc/tmp/rwlock", json.dumps(record))


def another_flow(patch: Patch) -> None:
    in_git(patch)
    held(".rapt/flow.lock", "4711")


# For each mistake its setup, the command, and the line, in which … stands for any text.
MISTAKES = {
    "unknown key": (
        edit("\nchannel:", "\nchanel:"),
        CHECK,
        "params.yaml: got 'chanel', expected one of allow_weak, …. Did you mean 'channel'?",
    ),
    "unknown mechanism": (
        edit("t2t: {mechanism: t2t}", "t2t: {mechanism: tt2}"),
        CHECK,
        "methods.t2t.mechanism: got 'tt2', expected one of adept, …. Did you mean 't2t'?",
    ),
    "unknown task": (
        edit("tasks: [movies]", "tasks: [movie]"),
        CHECK,
        "sweep.tasks: got 'movie', expected movies. Did you mean 'movies'?",
    ),
    "missing column": (
        edit("column: label", "column: lable"),
        CHECK,
        "my.csv: tasks.movies.label.column: got 'lable', expected one of label, text. Did you mean "
        "'label'?",
    ),
    "NaN label, at check": (data(rows(at4="", at9="NaN")), CHECK, f"tasks.movies{NO_CLASS}"),
    "null label, at init": (data(rows(at4="null", at9="NaN")), INIT, f"tasks.mine{NO_CLASS}"),
    "eta 0": (nothing, (*PRIVATIZE, "0"), f"eta: got '0', {ETA}"),
    "eta 0 in params": (edit("etas: [75]", "etas: [0]"), CHECK, f"sweep.etas.0: got 0, {ETA}"),
    "eta negative": (nothing, (*PRIVATIZE, "-75"), f"eta: got '-75', {ETA}"),
    "eta negative in params": (
        edit("etas: [75]", "etas: [-75]"),
        CHECK,
        f"sweep.etas.0: got -75, {ETA}",
    ),
    "eta not a number": (nothing, (*PRIVATIZE, "many"), f"eta: got 'many', {ETA}"),
    "eta not a number in params": (
        edit("etas: [75]", "etas: [many]"),
        CHECK,
        f"sweep.etas.0: got 'many', {ETA}",
    ),
    "missing table": (
        nothing,
        (*PRIVATIZE, "75"),
        "table: got 'models/tables/minilm', expected a folder with an embedding table. Make one by "
        "dvc repro tables, or rapt table.",
    ),
    "model that does not exist": (
        edit(
            "backbones:\n  minilm:\n    model: package:gt_all",
            "backbones:\n  minilm:\n    model: package:no",
        ),
        CHECK,
        "backbones.minilm.model: got 'package:no_minilm_l6_v2/model', expected a folder with "
        "safetensors, package:NAME/FOLDER of an installed package, or owner/name@REVISION. "
        "Install it, or correct the name.",
    ),
    "port in use": (
        taken,
        ("serve", "--adapter", "models"),
        "port: got … (Address already in use), expected a free one. Give another, or 0 for any.",
    ),
    "private prediction without a number of queries": (
        nothing,
        (*SERVE, "--private-prediction", "--epsilon", "3"),
        "queries: missing, expected a value (that share ε: the more they are, the more noise).",
    ),
    "an epsilon of nothing": (
        nothing,
        (*SERVE, "--epsilon", "3"),
        "epsilon: got one without --private-prediction, expected none.",
    ),
    "private prediction without teachers": (
        nothing,
        (*SERVE, "--private-prediction", "--epsilon", "3", "--queries", "100"),
        "adapter: got 'models' with 0 tuned seeds, expected a cell's folder with two or more, "
        "models/adapters/CELL. Tune one with train.shards.",
    ),
    "unwritable folder": (
        nothing,
        ("privatize", "my.csv", "/sys/out.csv", "--eta", "1", "--table", "tiny"),
        "/sys/…: got …, expected a place that you may read and write. Change its permissions, or "
        "choose another.",
    ),
    "flow beside dvc repro, in a stage": (
        dvc_runs,
        FLOW,
        f"dvc: got another DVC command at work in this folder (pid {os.getpid()}), expected none. "
        "Wait for its end, or stop it. If it was killed: rm .dvc/tmp/rwlock",
    ),
    "flow beside dvc repro, between stages": (
        dvc_starts,
        FLOW,
        "dvc: got another DVC command at work in this folder, expected none. Wait for its end, or "
        "stop it.",
    ),
    "flow beside a flow": (
        another_flow,
        FLOW,
        "Another flow is already running in this workspace (pid 4711, since …). Wait for it, or "
        "stop it by Ctrl-C.",
    ),
    "not UTF-8, at check": (latin, CHECK, NOT_UTF_8),
    "not UTF-8, at init": (latin, INIT, NOT_UTF_8),
    "xlsx": (
        lambda _: write("my.xlsx", "secret"),
        ("init", "my.xlsx"),
        "my.xlsx: got a spreadsheet, expected .txt, .text, .csv, .tsv, .tab, .jsonl, .ndjson, "
        ".parquet, .pq. Save it as CSV (UTF-8).",
    ),
    "CSV changed since init": (
        changed,
        CHECK,
        "my.csv: got sha256 …, expected …. It changed since it was entered: restore it, or correct "
        "sha256.all of its task.",
    ),
    "too few rows, at check": (
        data(rows(100)),
        CHECK,
        "gate.min_rows: got 40 rows of tasks.movies to train, expected at least 50. Add rows, or "
        "lower it in params.yaml.",
    ),
    "too few rows, at init": (
        data(rows(99)),
        INIT,
        "gate.min_rows: got 99 rows in my.csv, expected at least 100, 50 for each split. Add rows, "
        "or lower it in params.yaml.",
    ),
    "one class, at init": (
        data(rows().replace("bad", "good")),
        INIT,
        "my.csv: label: got 1 different values in column 'label', expected 2 to 20. Add rows with "
        "others, or name another column.",
    ),
    "blank texts, at init": (data(rows(text="  ")), INIT, NO_WORDS),
    "texts of signs alone, at init": (data(rows(text="?!")), INIT, NO_WORDS),
    "no rows are left, at check": (
        edit("    rows: {test", "    exclude: {label: [good, bad]}\n    rows: {test"),
        CHECK,
        "tasks.movies: got no rows, expected some; dropped: {'excluded': 200, 'empty text': 0}.",
    ),
    "dirty work tree": (
        dirty,
        FLOW,
        "stages/new.py: got untracked code, expected what git tracks or ignores. Next: git add it; "
        "or run dvc repro, which takes it as it is, one stage at a time.",
    ),
    "no disk space": (
        full,
        INIT,
        "/…/params.yaml: got no space left on device, expected room on its disk. Free some, then "
        "start again.",
    ),
}


@pytest.mark.parametrize(("make", "command", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_status_2(
    make: Callable[[Patch], None],
    command: tuple[str, ...],
    line: str,
    monkeypatch: Patch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["rapt", *command])
    make(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capfd.readouterr().err
    assert re.fullmatch(re.escape(line).replace("…", "[^\n]+") + "\n", said), said
    assert ended.value.code == 2
    assert "secret" not in said


def test_another_python_is_one_line_and_status_2() -> None:
    """Printed by make, as rapt is not installed yet; make's own last line is the shell's status."""
    fake = "import sys; sys.version_info = (3, 10, 4); exec(sys.argv[2])"
    write("python", f"#!/bin/sh\nexec {sys.executable} -c '{fake}' \"$@\"\n")
    Path("python").chmod(0o755)
    for name in ("requirements.lock", "pyproject.toml"):
        write(name, "")
    make = ["make", "--file", str(ROOT / "Makefile"), ".venv/installed", "PYTHON=./python"]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    line, of_make = done.stderr.splitlines()
    assert line == ("rapt needs Python 3.11 or later, found 3.10. Try: make PYTHON=python3.11")
    assert re.match(r"make(\[\d+\])?: \*\*\* ", of_make)
    assert done.returncode == 2
