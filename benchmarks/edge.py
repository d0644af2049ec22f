"""RAPT's Table X: the overhead on a small device. Words are tagged already, one thread, no torch.

The paper's numbers are from a Raspberry Pi 4; times on another machine stand beside them only.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Figure, figure
from benchmarks.tables import SIZE, eta_at, write_table

PUBLISHED = Path("rapt/reporting/published/edge_overhead.csv")


def run(tables: Path) -> list[Figure]:
    folder = write_table(tables / f"{SIZE}x768", SIZE, 768)
    figures = []
    with PUBLISHED.open() as file:
        for row in csv.DictReader(file):
            n, seconds = int(row["words"]), float(row["seconds_per_sequence"])
            most = float(row["peak_memory_mb"])
            # The best of three starts: the first reads files that the others find in memory.
            found = min((_fresh(folder, n) for _ in range(3)), key=lambda run: run["seconds"])
            assert found["released"] == n and not found["torch"]
            at = f"{n:,} words"
            beside = f"(the paper's Pi: {seconds:g} s)"
            figures += [
                figure(f"start-up, {at}", found["start_up"], "s", most=2),
                figure(f"time, {at} {beside}", found["seconds"], "s"),
                figure(
                    f"peak memory over the interpreter, {at}", found["memory"], "MiB", most=most
                ),
            ]
    return figures


def _fresh(folder: Path, n: int) -> dict[str, float]:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.edge_worker", folder, eta_at(768), SIZE, n]
    run = subprocess.run(
        list(map(str, command)), env=os.environ | threads, capture_output=True, check=True
    )
    found: dict[str, float] = json.loads(run.stdout)
    return found
