"""No process of ours lives on after its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import proxy_bypass

import psutil
import pytest

from rapt.utils.process import no_proxy_on_loopback, tethered, without
from tests.conftest import ROOT

SLOW_TO_START = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from rapt.utils.process import die_with_parent

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


def test_a_tethered_command_does_not_start_after_its_parents_death() -> None:
    script = (
        "import rapt.utils.process as p; print(*p.tethered('/bin/echo', 'started'), sep=chr(10))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    orphan = subprocess.run(done.stdout.splitlines(), capture_output=True)
    assert orphan.returncode == -signal.SIGKILL
    assert orphan.stdout == b""
    assert subprocess.run(tethered("/bin/echo", "started"), capture_output=True).stdout


def test_an_optional_import_fails_only_within() -> None:
    with without("wave"), pytest.raises(ImportError):
        import wave
    import wave

    with without("wave"):
        import wave as again  # it is there already
    assert again is wave


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, "127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "corp.example, localhost"}, "corp.example,localhost,127.0.0.1,::1"),
        ({"no_proxy": "a.example", "NO_PROXY": "b.example"}, "a.example,127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "*"}, "*"),
    ],
)
def test_loopback_needs_no_proxy(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str], after: str
) -> None:
    # By monkeypatch, which takes back what the function sets.
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, before.get(name, ""))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for _ in range(2):  # again in a child
        no_proxy_on_loopback()
        assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == after
    assert proxy_bypass("127.0.0.1:4200")
    assert bool(proxy_bypass("elsewhere.example")) == (after == "*")
