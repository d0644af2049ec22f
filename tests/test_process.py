"""No process of ours lives on after its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT

SLOW_TO_START = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from rapt.process import die_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), die_with_parent) as pool:
        pool.submit(time.sleep, 600)
        print("started", flush=True)
        time.sleep(600)
else:
    time.sleep(5)
"""


@pytest.mark.slow
def test_a_process_of_a_pool_dies_though_its_parent_was_killed_before_it_had_begun(
    tmp_path: Path,
) -> None:
    script = tmp_path / "parent.py"
    script.write_text(SLOW_TO_START)
    command, ours = [sys.executable, script], {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=ours, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "started\n"
        family = psutil.Process(parent.pid).children()
        assert family
        parent.kill()
    _, alive = psutil.wait_procs(family, timeout=60)
    for process in alive:
        process.kill()
    assert not alive
