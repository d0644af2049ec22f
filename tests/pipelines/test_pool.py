"""Several machines leave the outcome of serial `dvc repro`, and no side gets private data."""

import json
import socket
from collections.abc import Iterable
from functools import partial

import boto3
import pytest
from moto.server import ThreadedMotoServer

from pipelines.remote import WARNING
from tests.conftest import wait_until
from tests.pipelines.conftest import PATIENCE
from tests.pipelines.machines import (
    CELLS,
    EVERY_STAGE,
    PROVIDER,
    PROVIDERS_OUTS,
    USER,
    Machines,
    md5,
)
from tests.pipelines.machines import machines as machines
from tests.pipelines.machines import pool as pool

pytestmark = pytest.mark.slow


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


def test_three_workers_leave_the_bytes_of_a_serial_run(
    machines: Machines, serial: dict[str, str]
) -> None:
    """Also if the remote is away when a stage ends. All else here shares a folder."""
    remote = S3(machines)
    for name in ("one", "two", "three"):
        machines.add_worker(name)
    flags = [machines.toy.flag(f"wait-{name}") for name in PROVIDER[:4]]
    flow = machines.start()
    wait_until(lambda: len(set(machines.toy.names()) & set(PROVIDER)) == 3)
    started = [name for name in PROVIDER if name in machines.toy.names()]
    remote.go()
    for flag in flags:
        flag.unlink()
    for name in started:
        wait_until(partial(machines.sending_has_failed, name.replace("-", "@", 1)))
    remote.come_back()
    output = flow.communicate(timeout=PATIENCE)[0]
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


def contents(blobs: Iterable[bytes]) -> set[str]:
    """Return the md5 of every file in a DVC cache, including those listed by its folders."""
    found: set[str] = set()
    for blob in blobs:
        if blob.startswith(b'[{"md5"'):
            found |= {entry["md5"] for entry in json.loads(blob)}
        else:
            found.add(md5(blob))
    return found
