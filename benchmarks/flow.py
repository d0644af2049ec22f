"""Benchmarks of the flow: overhead per command, speedup over serial `dvc repro`, startup time."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from functools import partial
from pathlib import Path

from benchmarks.measure import Figure, figure, seconds
from tests.reporting import synthetic

PROJECT = Path(__file__).parents[1]
# The flow of a project without rapt's params and report.
DRIVER = """\
from pipelines import __main__
__main__.check.check = lambda: None
__main__.finish = lambda _: None
__main__.told(lambda: __main__.start(2, None, None))
"""
PIPELINE = """\
stages:
  cell:
    matrix: {{cell: [{cells}]}}
    cmd: {command}
    deps: [given]
    outs: ["made/${{key}}"]
"""
# Keeps one thread busy for the given seconds, like a stage that trains.
BUSY = """\
import sys, time
from pathlib import Path
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    pass
Path("made").mkdir(exist_ok=True)
Path(f"made/{sys.argv[2]}").write_text(sys.argv[2])
"""
# The files of the synthetic sweep, ignored by git.
SWEEP = "params.yaml\nreports/\ndata/\nmlflow.db\nmlartifacts/\n"
TRIVIAL = "mkdir -p made && echo ${key} > made/${key} && date +%s.%N >> $RAPT_HOME/began"


def run(_: Path) -> list[Figure]:
    """Small projects of one matrix, on two slots."""
    return [
        _overhead(cells=24, each=1.0),
        _speedup(cells=6, each=20.0),
        _start(cells=250),
        _finished(cells=250),
    ]


def _overhead(cells: int, each: float) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        root = _project(Path(folder), cells, _busy(each))
        bare = seconds(lambda: _call(root, f"{_busy(each)} 0"))
        whole = seconds(lambda: _flow(root))
    over = 2 * whole / cells - bare
    return figure(f"flow less bare command, {cells} cells on 2 slots", over, "s a cell", most=3)


def _speedup(cells: int, each: float) -> Figure:
    taken = {}
    for name, way in {"serial": _serial, "flow": _flow}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = _project(Path(folder), cells, _busy(each))
            taken[name] = seconds(partial(way, root))
    return figure(
        f"serial dvc repro / flow on 2 slots, {cells} cells of {each:g} s",
        taken["serial"] / taken["flow"],
        "times",
        least=1.6,
    )


def _start(cells: int) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        root = _project(Path(folder), cells, TRIVIAL)
        began = root / "began"
        started = time.time()
        flow = subprocess.Popen(
            _command(root), cwd=root, env=_environment(root), start_new_session=True
        )
        # The shell makes the file before its command writes into it.
        while not (began.exists() and began.stat().st_size) and flow.poll() is None:
            time.sleep(0.05)
        first = float(began.read_text().split()[0]) - started
        for _ in range(2):
            os.killpg(flow.pid, signal.SIGINT)
            time.sleep(1)
        flow.wait()
    return figure(f"flow of {cells} cells: until the first runs", first, "s", most=20)


def _finished(cells: int) -> Figure:
    """Time `python -m pipelines`, which checks the params and whether MLflow has every cell."""
    with tempfile.TemporaryDirectory() as folder:
        root = _project(Path(folder), cells, TRIVIAL)
        with chdir(root):
            synthetic.write(root, synthetic.sweep_widely)
        command = f"{sys.executable} -m pipelines"
        _serial(root)
        _call(root, command)  # fills in MLflow
        finished = seconds(lambda: _call(root, command))
    return figure(f"flow of {cells} cells that are up to date", finished, "s", most=15)


def _busy(each: float) -> str:
    return f"{sys.executable} busy.py {each}"


def _project(root: Path, cells: int, command: str) -> Path:
    command = command if "${key}" in command else f"{command} ${{key}}"
    names = ", ".join(str(number) for number in range(cells))
    (root / "dvc.yaml").write_text(PIPELINE.format(cells=names, command=command))
    (root / "busy.py").write_text(BUSY)
    (root / "driver.py").write_text(DRIVER)
    (root / "params.yaml").write_text("tuners: {}\n")
    (root / "given").touch()
    (root / ".gitignore").write_text(".rapt/\nmade/\nbegan\n" + SWEEP)
    (root / "made").mkdir()
    for line in (
        "git init -q",
        f"{sys.executable} -m dvc init -q",
        f"{sys.executable} -m dvc config core.analytics false",
        "git add -A",
        "git -c user.name=rapt -c user.email=rapt@localhost commit -q -m project",
    ):
        _call(root, line)
    return root


def _command(root: Path) -> list[str]:
    return [sys.executable, str(root / "driver.py")]


def _flow(root: Path) -> None:
    subprocess.run(_command(root), cwd=root, env=_environment(root), check=True)


def _serial(root: Path) -> None:
    _call(root, f"{sys.executable} -m dvc repro -q")


def _call(root: Path, line: str) -> None:
    subprocess.run(shlex.split(line), cwd=root, env=_environment(root), check=True)


def _environment(root: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(PROJECT), "RAPT_HOME": str(root)}
