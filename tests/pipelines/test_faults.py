"""Injected faults: no partial file passes for complete, and the next run completes the work.

Finished stages are kept. Each test ends with the bytes, dvc.lock included, that an undisturbed
serial `dvc repro` leaves.
"""

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from pipelines import dvc_api, server
from pipelines.slots import INTERRUPTED
from tests.conftest import wait_until
from tests.pipelines.conftest import FILES, PATIENCE, Toy, make
from tests.pipelines.test_reproduce import EVERY_STAGE, alive
from tests.reporting import synthetic, test_mlflow_mirror

pytestmark = pytest.mark.slow


def completes(toy: Toy, expected: dict[str, str]) -> None:
    done = toy.flow()
    assert done.returncode == 0, done.stdout + done.stderr
    assert toy.outcome() == expected
    assert toy.leftovers() == []


def test_a_killed_stage_is_started_again(toy: Toy, expected: dict[str, str]) -> None:
    """One dies alone, one with its DVC."""
    flags = {name: toy.flag(f"wait-{name}") for name in ("1-a", "1-b")}
    flow = toy.start()
    wait_until(lambda: set(flags) <= set(toy.names()))
    alone, below = (next(int(pid) for n, pid, _ in toy.ran() if n == name) for name in flags)
    for flag in flags.values():
        flag.unlink()
    for victim in (alone, psutil.Process(below).ppid()):
        os.kill(victim, signal.SIGKILL)
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 0, output
    assert output.count("which may pass") == 2
    assert toy.outcome() == expected
    assert toy.names() == sorted([*EVERY_STAGE, "1-a", "1-b"])


def test_the_coordinator_killed_while_it_collects(toy: Toy, expected: dict[str, str]) -> None:
    flow, lock = toy.start(), toy.root / "dvc.lock"
    wait_until(lock.exists)
    flow.kill()
    flow.communicate(timeout=PATIENCE)
    # DVC leaves such a file if it is killed while copying.
    part = toy.root / "reports/cells/.6ZrR0dPDkYcOXVgQUHqTYg.tmp"
    part.parent.mkdir(exist_ok=True)
    part.write_text("half of it")
    completes(toy, expected)
    assert toy.names() == EVERY_STAGE


def test_one_command_forgets_a_dvc_that_was_killed(toy: Toy, expected: dict[str, str]) -> None:
    """One that nobody buries, for which DVC waits forever, and one that cut its record off."""
    flag, record = toy.flag("wait-1-b"), toy.root / ".dvc/tmp/rwlock"
    repro = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "-q"], cwd=toy.root, env=toy.environment()
    )
    wait_until(lambda: "1-b" in toy.names())
    repro.kill()
    wait_until(lambda: psutil.Process(repro.pid).status() == psutil.STATUS_ZOMBIE)
    flag.unlink()
    for content, problem in (
        (record.read_text() or held_by(repro.pid, toy), f"(pid {repro.pid}), expected none."),
        ("", "Unable to read RWLock-file"),
    ):
        record.write_text(content)
        done = toy.flow()
        assert done.returncode == 2
        assert problem in done.stderr
        assert done.stderr.strip().endswith("If it was killed: rm .dvc/tmp/rwlock")
        assert done.stderr.count("\n") == 1
    record.unlink()
    completes(toy, expected)
    assert toy.names() == sorted([*EVERY_STAGE, "1-b"])
    repro.wait()


def held_by(pid: int, toy: Toy) -> str:
    """DVC's record of a process that writes an out."""
    out = str(toy.root / "reports/cells/1-b.txt")
    return json.dumps({"write": {out: {"pid": pid, "cmd": "dvc repro"}}, "read": {}})


def test_a_dvc_that_runs_keeps_its_place(toy: Toy) -> None:
    """A flow beside it ends at once, with a line that names its process."""
    flag = toy.flag("wait-1-b")
    other = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "-q", "cell@1-b"],
        cwd=toy.root,
        env=toy.environment(),
    )
    wait_until(lambda: "1-b" in toy.names())
    record = json.loads((toy.root / ".dvc/tmp/rwlock").read_text())
    done = toy.flow()
    assert done.returncode == 2
    assert f"another DVC command at work in this folder (pid {other.pid})" in done.stderr
    assert json.loads((toy.root / ".dvc/tmp/rwlock").read_text()) == record
    flag.unlink()
    assert other.wait(PATIENCE) == 0


@pytest.mark.parametrize(("end", "folder"), [("Ctrl-C", ".rapt/slots/all"), ("kill", ".")])
def test_broken_off_while_it_collects(done: Toy, end: str, folder: str) -> None:
    """As DVC reproduces all in a slot, or as it checks the outs out in the main workspace.

    Before the first ends git shows no change, not even in the figures that it tracks. After it all
    of them are new.
    """
    toy = done
    (toy.root / "params.yaml").write_text(FILES["params.yaml"].replace("[1, 2]", "[1, 2, 3]"))
    status = toy.git("status", "--porcelain")
    flow = toy.start()
    dvc = suspended(flow, toy.root / folder)
    if end == "kill":
        flow.kill()
        flow.communicate(timeout=PATIENCE)
    else:
        for _ in range(2):
            os.killpg(flow.pid, signal.SIGINT)
            time.sleep(0.5)  # two signals that are pending at once become one
        output = flow.communicate(timeout=PATIENCE)[0]
        assert output.strip().splitlines()[-1] == INTERRUPTED
        assert "Traceback" not in output
    wait_until(lambda: not alive(dvc.pid))
    metrics = toy.root / "reports/metrics.json"
    if folder != ".":
        assert "4" in metrics.read_text()
        assert toy.git("status", "--porcelain") == status
    else:
        assert "6" in metrics.read_text()
        assert "cell@3-b" in (toy.root / "dvc.lock").read_text()
        assert not (toy.root / "reports/cells/3-b.txt").exists()
    ran = toy.names()
    again = toy.flow()
    assert again.returncode == 0, again.stdout + again.stderr
    assert "6" in metrics.read_text()
    assert toy.names() == ran
    flowed = toy.outcome()
    toy.serial()
    assert toy.outcome() == flowed


def suspended(flow: subprocess.Popen[str], folder: Path) -> psutil.Process:
    """Return the flow's DVC in this folder, suspended as it starts."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for child in psutil.Process(flow.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # of a stage that has just ended
                tethered = child.cmdline()[2:] == [dvc_api.__file__, "serve"]
                if tethered and child.cwd() == str(folder.resolve()):
                    child.suspend()
                    return child
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def test_the_prefect_server_killed(toy: Toy, expected: dict[str, str], prefect_home: Path) -> None:
    flag = toy.flag("wait-1-b")
    flow = toy.without_server(prefect_home).start()
    wait_until(lambda: "1-b" in toy.names())
    children = psutil.Process(flow.pid).children()
    (prefect,) = [child for child in children if "server" in child.cmdline()]
    prefect.kill()
    wait_until(lambda: not alive(prefect.pid))
    flag.unlink()
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 2
    assert "prefect: got no answer of its server any more, expected one. Finished stages" in output
    assert "Traceback" not in output
    assert len(output.strip().splitlines()) < 60
    completes(toy, expected)
    assert toy.names() == EVERY_STAGE


def test_a_flow_and_the_mlflow_server_killed_while_it_fills_mlflow(
    toy: Toy, expected: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In its last step, which no stage waits for; the next start completes the mirror.

    The server only reads what flows write: a flow neither needs it nor notices its death.
    """
    folder = tmp_path_factory.mktemp("mlflow")
    with contextlib.chdir(folder):
        experiment = synthetic.write(folder)
    mirrored = dataclasses.replace(toy, mlflow=folder)
    port, store = server._free_port(), f"sqlite:///{folder}/mlflow.db"
    address = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    shown = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", *address, "--backend-store-uri", store],
        cwd=folder,
        env=toy.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: answers(port))
    flow = mirrored.start()
    begun = logged_files(folder, 3)
    assert flow.poll() is None
    flow.kill()
    output = flow.communicate(timeout=PATIENCE)[0]
    assert "MLflow" not in output
    assert toy.outcome() == expected
    assert set(logged(folder)) < test_mlflow_mirror.expected(experiment)

    flow = mirrored.start()
    logged_files(folder, begun + 3)
    assert flow.poll() is None
    os.killpg(shown.pid, signal.SIGKILL)
    shown.wait()
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 0, output
    assert "warning" not in output
    assert toy.outcome() == expected
    assert toy.names() == EVERY_STAGE
    children = logged(folder)
    assert set(children) == test_mlflow_mirror.expected(experiment)
    assert {run.info.status for run in children.values()} == {"FINISHED"}


def logged_files(folder: Path, number: int) -> int:
    """Wait until MLflow has so many statements, and return how many it has."""
    found: list[Path] = []

    def enough() -> bool:
        found[:] = folder.glob("mlartifacts/**/statement.json")
        return len(found) >= number

    wait_until(enough)
    return len(found)


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").is_success
    except httpx.HTTPError:
        return False


def logged(folder: Path) -> dict[str, Any]:
    """Return MLflow's content for each cell."""
    with contextlib.chdir(folder):
        parents, children = test_mlflow_mirror.runs()
    assert len(parents) == 1
    return children


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    root = tmp_path / "disk"
    root.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(root)]
    if subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("needs root, to mount a file system")
    yield root
    subprocess.run(["umount", "--lazy", str(root)], check=True)


def test_the_disk_full_everywhere(small_disk: Path, server: str, expected: dict[str, str]) -> None:
    """DVC's cache and the slots are on it, too."""
    toy = make(small_disk, server)
    rest = toy.root / ".rapt/rest"
    free = os.statvfs(toy.root)
    rest.write_bytes(b"x" * (free.f_bavail * free.f_bsize - 40_000))
    done = toy.flow()
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (toy.root / "dvc.lock").exists()
    rest.unlink()
    completes(toy, expected)


def test_damaged_cache_objects(toy: Toy, expected: dict[str, str]) -> None:
    toy.flag("break-2-b")
    assert toy.flow().returncode == 1  # the others are in the cache alone
    damage = {"1-a first": "damaged!!", "1-b first": "cut", "2-a first": ""}
    for path in (toy.root / ".dvc/cache/files/md5").glob("??/*"):
        if path.read_text() in damage:
            path.chmod(0o644)
            path.write_text(damage.pop(path.read_text()))
            path.chmod(0o444)
    assert not damage
    toy.flag("break-2-b").unlink()
    completes(toy, expected)
    assert toy.names() == sorted([*EVERY_STAGE, "1-a", "1-b", "2-a", "2-b"])


def test_a_file_edited_while_stages_run(toy: Toy, expected: dict[str, str]) -> None:
    flag = toy.flag("wait-1-b")
    flow = toy.start()
    wait_until(lambda: "1-b" in toy.names())
    mark = toy.root / "rapt/mark.py"
    before = mark.read_text()
    mark.write_text('MARK = "second"\n')
    flag.unlink()
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 2
    assert re.search(r"got changes while the flow ran \(rapt/mark\.py\)", output)
    assert not (toy.root / "dvc.lock").exists()

    mark.write_text(before)
    completes(toy, expected)
    assert toy.names() == EVERY_STAGE  # what ran was of the snapshot
