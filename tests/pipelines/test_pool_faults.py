"""Whatever happens to the machines of a pool, the outcome is that of serial `dvc repro`."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from tests.conftest import wait_until
from tests.pipelines.conftest import PATIENCE, SIDES, make
from tests.pipelines.machines import EVERY_STAGE, PROVIDER, Machines, kill, started
from tests.pipelines.machines import pool as pool
from tests.pipelines.test_reproduce import alive

pytestmark = pytest.mark.slow


@pytest.fixture
def machines(tmp_path: Path, server: str, pool: None) -> Iterator[Machines]:
    """Machines whose project lies below the top of its repository; elsewhere it is the top."""
    top = tmp_path / "coordinator"
    with started(make(top / "of/project", server, SIDES, top=top), tmp_path) as machines:
        yield machines


def test_what_dies_is_started_again_and_what_fails_at_the_next_start(
    machines: Machines, serial: dict[str, str]
) -> None:
    """In one flow: a stage is killed, a run is killed with its stage, and a stage fails."""
    machines.add_worker("one")
    machines.add_worker("two")
    dying = ["train-1-a", "train-1-b"]
    flags = [machines.toy.flag(f"wait-{name}") for name in dying]
    broken = machines.toy.flag("break-train-2-b")
    flow = machines.start()
    wait_until(lambda: set(dying) <= set(machines.toy.names()))
    machines.process_of("train-1-a").kill()
    stage = machines.process_of("train-1-b")
    next(p for p in stage.parents() if "prefect.engine" in p.cmdline()).kill()
    wait_until(lambda: not alive(stage.pid), 10)
    for flag in flags:
        flag.unlink()
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 1
    assert "Traceback" not in output
    assert output.strip().splitlines()[-1].startswith("failed: train@2-b; skipped")
    began = sorted([*EVERY_STAGE, *dying])
    assert machines.toy.names() == [name for name in began if name != "report"]
    assert not (machines.toy.root / "dvc.lock").exists()
    assert machines.toy.git("ls-remote", "origin") == ""

    broken.unlink()
    machines.run()
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == sorted([*began, "train-2-b"])


def test_a_run_of_a_machine_that_is_silent_is_started_on_another(
    machines: Machines, serial: dict[str, str]
) -> None:
    """And if the machine only slept, its run ends beside the other."""
    machines.own["TOY_SILENCE"] = "40"
    machine = machines.add_worker("one")
    flag = machines.toy.flag("wait-train-1-a")
    flow = machines.start()
    wait_until(lambda: "train-1-a" in machines.toy.names())
    kill(machine.pid, signal.SIGSTOP)
    machines.add_worker("two")
    wait_until(lambda: machines.toy.names().count("train-1-a") == 2)
    assert machines.ran_on("two").count("train-1-a") == 1
    kill(machine.pid, signal.SIGCONT)
    flag.unlink()
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 0, output
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == sorted([*EVERY_STAGE, "train-1-a"])


def test_the_next_start_completes_what_was_broken_off(
    machines: Machines, serial: dict[str, str]
) -> None:
    """Interrupted by Ctrl-C before a worker begins, twice while one runs, then by all deaths."""
    flag = machines.toy.flag("wait-train-1-a")
    flow = machines.start()
    wait_until(lambda: waiting(machines) > 0)
    os.killpg(flow.pid, signal.SIGINT)
    interrupted(flow)
    assert waiting(machines) == 0

    started = machines.add_worker("one")
    flow = machines.start()
    wait_until(lambda: "train-1-a" in machines.toy.names())
    stage = machines.process_of("train-1-a")
    for _ in range(2):
        os.killpg(flow.pid, signal.SIGINT)
        time.sleep(0.5)  # two signals that are pending at once become one
    interrupted(flow)
    assert machines.toy.git("ls-remote", "origin") == ""
    assert machines.toy.leftovers() == []
    wait_until(lambda: not alive(stage.pid))

    flow = machines.start()
    wait_until(lambda: machines.toy.names().count("train-1-a") == 2)
    for pid in (started.pid, flow.pid):
        kill(pid)
    flow.communicate(timeout=PATIENCE)
    assert machines.toy.git("ls-remote", "origin").count("refs/rapt/") == 1
    assert not (machines.toy.root / "dvc.lock").exists()

    flag.unlink()
    machines.add_worker("two")
    machines.run()
    assert machines.toy.outcome() == serial
    twice = Counter(machines.toy.names()) - Counter(EVERY_STAGE)
    assert twice.pop("train-1-a") == 2
    # Of the user's stages, at most the two in the slots run twice each time.
    assert set(twice) <= set(EVERY_STAGE) - set(PROVIDER)
    assert twice.total() <= 4
    assert machines.toy.git("ls-remote", "origin") == ""


def interrupted(flow: subprocess.Popen[str]) -> None:
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 1
    assert output.strip().splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in output


def waiting(machines: Machines) -> int:
    """Count the runs of this flow that wait for a worker."""
    ours = str(machines.folder / "shared.git")
    with (
        temporary_settings({PREFECT_API_URL: machines.toy.server}),
        get_client(sync_client=True) as client,
    ):
        runs = [r for r in client.read_flow_runs() if r.parameters.get("repository") == ours]
    return sum(run.state is not None and run.state.is_scheduled() for run in runs)
