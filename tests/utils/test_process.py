"""No process of ours lives on after its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import proxy_bypass

import psutil
import pytest

from rapt.utils import process
from rapt.utils.process import tethered, without
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
    for one in alive:
        one.kill()
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
    ("own", "files", "cores", "memory"),
    [
        ("0::/", {"cpu.max": "200000 100000", "memory.max": "2147483648"}, 2, 1 << 31),
        ("0::/a/b", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1, None),
        ("0::/../../host/path", {"cpu.max": "50000 100000", "memory.max": "max"}, 1, None),
        ("0::/", {"cpu.max": "6400000 100000"}, 7, None),
        (
            "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x",
            {
                "cpu/cpu.cfs_quota_us": "300000",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/docker/x/memory.limit_in_bytes": "1073741824",
            },
            3,
            1 << 30,
        ),
        ("5:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 7, None),
        ("", {}, 7, None),
    ],
)
def test_a_container_limits_cores_and_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    files: dict[str, str],
    cores: int,
    memory: int | None,
) -> None:
    for name, content in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(process, "CGROUPS", tmp_path / "tree")
    monkeypatch.setattr(process, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)), raising=False)
    assert process.cores() == cores
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert process.memory() == (memory or whole)
    assert process.slots() == max(1, min(cores, (memory or whole) // process.STAGE_MEMORY))


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_loopback_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    import httpx

    for other in ("NO_PROXY", "no_proxy"):  # empty, so that monkeypatch takes back what is set
        monkeypatch.setenv(other, "")
    monkeypatch.setenv(name, "*")
    process.no_telemetry()
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == "*"
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(other, "")
    monkeypatch.setenv(name, "example.org")
    process.no_telemetry()
    process.no_telemetry()
    assert os.environ["NO_PROXY"] == "example.org,127.0.0.1,localhost,::1"
    assert proxy_bypass("example.org")  # Python's own, which reads no_proxy first
    with httpx.Client() as client:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            assert client._transport_for_url(httpx.URL(f"http://{host}:4200")) is client._transport
        assert client._transport_for_url(httpx.URL("http://example.com")) is not client._transport
