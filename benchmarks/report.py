"""The report of a wide sweep, from synthetic cells: page, tables and figures by a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figure, figure, seconds


def run(tables: Path) -> list[Figure]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.report"], capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    return [figure(f"report of {found['cells']} cells", found["seconds"], "s", most=10)]


def _write() -> dict[str, float]:
    from contextlib import chdir

    from rapt.reporting import writer
    from rapt.results import reader
    from tests.reporting import synthetic

    with TemporaryDirectory() as folder, chdir(folder):
        params = synthetic.write(Path(folder), synthetic.sweep_widely)
        results = reader.load(params)
        return {"cells": len(results.cells), "seconds": seconds(lambda: writer.write(results))}


if __name__ == "__main__":
    print(json.dumps(_write()))
