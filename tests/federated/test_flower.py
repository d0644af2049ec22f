"""A federated training over Flower: its rounds in this process, and one of processes with TLS."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from filelock import FileLock
from ruamel.yaml import YAML

from rapt.federated import client, flower
from rapt.federated.flower import Content
from rapt.federated.laws import Law, Weights
from rapt.federated.server import SavedServer, Server, encoded
from rapt.kinds.generate import Generate
from rapt.tuning.model import load
from rapt.tuning.tuners import Federated
from rapt.utils.errors import RaptError
from tests.conftest import ROOT, wait_until
from tests.tuning.conftest import backbone as backbone
from tests.tuning.conftest import release as release
from tests.tuning.test_writing import translators as translators

WEIGHTS = {"a": torch.zeros(2, 2), "b": torch.ones(2)}
HOW = Federated(clients=8, rounds=2, rate=1.0, clip=2.0)


class Answers(flower.Nodes):
    """Clients that answer by a function of the node and the message; KeyError: none comes."""

    def __init__(self, answer: Callable[[int, Content], Content | None], *clients: int) -> None:
        self.answer, self.asked = answer, 0
        self.clients = {20 + client: client for client in clients}

    def online(self) -> Mapping[int, int]:
        return self.clients

    def ask(
        self, contents: Mapping[int, Content], seconds: float
    ) -> Iterator[tuple[int, Content | None]]:
        assert len({content["salt"] for content in contents.values()}) == len(contents)
        for node, content in contents.items():
            assert content["client"] == node - 20
            self.asked += 1
            try:
                yield node, self.answer(node, content)
            except KeyError:
                continue


def update(size: float) -> Weights:
    return {"a": torch.full((2, 2), size), "b": torch.zeros(2)}


def sends(size: float, round_: int) -> Content:
    return {"round": round_, "change": encoded(update(size))}


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_who_lies_or_is_away_counts_as_no_change(caplog: pytest.LogCaptureFixture) -> None:
    """Nodes 20 to 26 are clients 0 to 6, and client 7 has none."""

    def answer(node: int, content: Content) -> Content | None:
        round_ = content["round"]
        assert isinstance(round_, int)
        answers: dict[int, Content | None] = {
            20: sends(0.1, round_),
            21: sends(float("nan"), round_),
            22: None,
            23: {"round": round_, "change": b"pickle"},
            24: sends(0.5, round_ - 1),
            25: {"greeting": 1},
        }
        return answers[node]

    server, honest = Server(Law(HOW), WEIGHTS, "0"), Server(Law(HOW), WEIGHTS, "0")
    flower.play(server, Answers(answer, *range(7)), 0)
    while not honest.ended:
        honest.take(0, honest.round, update(0.1))
        honest.close()
    assert same(server.weights, honest.weights)
    for line in (
        "client 1, round 1: update.a: got a number that is not finite, expected none. It counts",
        "client 2, round 2: got an error, expected a change. See the log of its node. It counts",
        "client 3, round 1: got 6 bytes, expected safetensors. It counts",
        "client 4: got an update of round 0, expected one of round 1. It came late. It counts",
        "client 5, round 1: got another message",
        "client 6, round 1: got no answer",
        "client 7, round 2: got no answer",
    ):
        assert line in caplog.text


def test_rounds_do_not_end_where_no_client_is_connected() -> None:
    """Each would be its noise alone, and all of them would take no time."""
    server = Server(Law(HOW), WEIGHTS, "0")
    with pytest.raises(RaptError, match="round 1: got no client that is connected"):
        flower.play(server, Answers(lambda node, content: None), 0)
    assert server.round == 0
    server.round = HOW.rounds
    flower.play(server, Answers(lambda node, content: None), 600)  # and nobody is waited for


@pytest.fixture
def project(
    tmp_path: Path, backbone: Path, release: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """A folder whose params.yaml has three clients, each with its turn once in three rounds.

    Returns:
        the configuration of a run.
    """
    yaml = YAML(typ="safe")
    content = yaml.load(ROOT / "tests/every_section.yaml")
    content["backbones"]["minilm"] |= {"model": str(backbone), "sha256": None}
    how = {"clients": 3, "rounds": 3, "rate": 0.34, "law": "banded", "clip": 0.5}
    how |= {"epsilon": 8.0, "delta": 0.01}
    lora = {"type": "lora", "r": 4, "alpha": 8, "dropout": 0.0, "learning_rate": 0.02}
    content["tuners"]["clients"] = lora | {"federated": how}
    yaml.dump(content, tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    return {
        "backbone": "minilm",
        "tuner": "clients",
        "release": str(release),
        "out": str(tmp_path / "out"),
        "seconds": 30,
    }


def start_of(run: Any) -> Weights:
    return client.learned(flower.trainer_of(run)[0])


def replayed(config: dict[str, Any], *honest: set[int]) -> Weights:
    """What our server has in the end if these clients answer in each round, and no other one does.

    It takes over the secret of a training that has ended, by which all clients and noise are drawn.
    """
    run, how = flower.run_of(config, Path(config["release"]))
    state = SavedServer(Law.of(how), start_of(run), Path(config["out"]) / "state.safetensors")
    assert state.ended
    server = Server(state.law, start_of(run), state._secret)
    while not server.ended:
        content: Content = {"round": server.round, "weights": encoded(server.weights)}
        for number in honest[server.round] & {*server.drawn()}:
            node = {"release": config["release"]}
            answer = flower.change(config, node, content | {"client": number})
            flower._take(server, number, answer)
        server.close()
    assert same(state.weights, server.weights)
    return server.weights


def test_clients_of_a_project_make_an_adapter(
    project: dict[str, Any], backbone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients 0 and 1 answer, client 2 is of another version, and the server dies in a round."""

    def answer(node: int, content: Content) -> Content:
        if content["round"] == 1 and nodes.asked == 2:
            raise KeyboardInterrupt
        own = {"release": project["release"]}
        return flower.change(project, own, content) if content["client"] != 2 else {"round": 0}

    nodes = Answers(answer, 0, 1, 2)
    with pytest.raises(KeyboardInterrupt):
        flower.serve(project, nodes)
    flower.serve(project, nodes)
    assert nodes.asked == 4  # in the second round twice
    assert "client 2, round" in caplog.text
    weights = replayed(project, *[{0, 1}] * 3)
    adapter = Path(project["out"]) / "adapter"
    contract = json.loads((adapter / "rapt.json").read_text())
    assert contract["training"]["clients"] == 3 and contract["training"]["epsilon"] <= 8
    served = load(adapter, backbone).state_dict()
    assert same(weights, {name: served[name.removeprefix("model.")] for name in weights})
    flower.serve(project, nodes)  # it has ended
    assert nodes.asked == 4


def test_a_project_that_does_not_suit_is_refused(project: dict[str, Any]) -> None:
    folder = Path(project["release"])
    with pytest.raises(RaptError, match=r"tuners.lora: got no section federated"):
        flower.run_of(project | {"tuner": "lora"}, folder)
    with pytest.raises(RaptError, match=r"tuner: got 'client', .* Did you mean 'clients'"):
        flower.run_of(project | {"tuner": "client"}, folder)
    keys = [key(Path(f"key-{n}")) for n in (0, 1)]
    Path("clients.pub").write_text("".join([*keys, keys[0]]))
    with pytest.raises(RaptError, match=r"clients.pub, line 3: got the key of client 0, expected"):
        flower.numbered("clients.pub")
    Path("clients.pub").write_text(keys[0] + "client 1\n")
    with pytest.raises(RaptError, match=r"clients.pub, line 2: got no public key"):
        flower.numbered("clients.pub")
    Path("out").mkdir()
    with FileLock("out/lock"), pytest.raises(RaptError, match="got another run that trains there"):
        flower.serve(project, Answers(lambda node, content: None))
    content: Content = {"round": 0, "client": 0, "weights": encoded(WEIGHTS)}
    with pytest.raises(RaptError, match="got 2 weights with other names"):
        flower.change(project, {"release": project["release"]}, content)


def test_a_decoder_of_its_own_is_told_its_texts_apart(
    project: dict[str, Any], translators: dict[str, Path]
) -> None:
    run, _ = flower.run_of(project, Path(project["release"]))
    run = replace(run, backbone=translators["t5"], kind=Generate())
    assert flower.trainer_of(run)[1].apart


def test_only_its_apps_need_flower() -> None:
    code = "import sys, rapt.federated.flower as f; assert not {'flwr', 'torch'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'agent_app'"):
        flower.agent_app  # noqa: B018


# The real thing

# Client 1 answers NaN. In the second round client 2 says that it works, and does not end.
LYING = """
import time
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from safetensors.numpy import load, save

from rapt.federated.flower import client_app

app = ClientApp()


@app.train()
def train(message, context):
    content = message.content["rapt"]
    if content["client"] == 2 and content["round"] == 1:
        Path("working").touch()
        time.sleep(600)
    if content["client"] != 1:
        return client_app(message, context)
    change = {name: np.full_like(w, np.nan) for name, w in load(content["weights"]).items()}
    record = ConfigRecord({"round": content["round"], "change": save(change)})
    return Message(RecordDict({"rapt": record}), reply_to=message)
"""


def certificates(folder: Path) -> dict[str, str]:
    """An authority, and a key and a certificate for the loopback that it signed."""
    folder.mkdir()
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    signs = ["-CA", "ca.pem", "-CAkey", "ca.key", "-days", "1", "-extfile", "names"]
    for command in (
        ["req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test"],
        ["req", *curve[:-2], "-keyout", "key.pem", "-out", "ask.pem", "-subj", "/CN=127.0.0.1"],
        ["x509", "-req", "-in", "ask.pem", "-out", "cert.pem", *signs],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    return {name: str(folder / f"{name}.pem") for name in ("ca", "key", "cert")}


def key(path: Path) -> str:
    """Make a client's key as ssh-keygen does, and return the line of its public one."""
    made = ec.generate_private_key(ec.SECP256R1())
    form = PrivateFormat.OpenSSH
    path.write_bytes(made.private_bytes(Encoding.PEM, form, NoEncryption()))
    public = made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public)
    return public.decode() + "\n"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_processes_over_tls_of_which_one_lies_one_is_killed_and_the_server_as_well(
    project: dict[str, Any], tmp_path: Path
) -> None:
    """In the second round server and client 2 are killed, after the others' answers.

    The server comes back and goes on with that round, and client 2 does not.
    """
    flwr = pytest.importorskip("flwr", reason="needs Flower: make flower")
    apart = Path(flwr.__file__).parents[1]
    yaml = YAML(typ="safe")
    content = yaml.load(tmp_path / "params.yaml")
    how = content["tuners"]["clients"]["federated"]
    how |= {"law": "sampled", "rate": 1.0, "rounds": 2}  # all clients in each round
    yaml.dump(content, tmp_path / "params.yaml")
    tls, port = certificates(tmp_path / "tls"), free_port()
    app = tmp_path / "app"
    app.mkdir()
    made = (ROOT / "pipelines/flower/pyproject.toml").read_text()
    (app / "pyproject.toml").write_text(
        made.replace("rapt.federated.flower:client_app", "lying:app")
    )
    (app / "lying.py").write_text(LYING)
    home = tmp_path / "home"
    home.mkdir()
    connection = f'address = "127.0.0.1:{port}"\nroot-certificates = "{tls["ca"]}"\n'
    (home / "config.toml").write_text(f"[superlink.test]\n{connection}")
    environment = os.environ | {
        "PATH": f"{apart / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": f"{apart}:{ROOT}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",  # else flwr keeps what the test waits for to itself
    }
    started: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str, *command: object) -> None:
        with (tmp_path / f"{name}.log").open("wb") as log:
            started[name] = subprocess.Popen(
                [sys.executable, str(apart / "bin" / str(command[0])), *map(str, command[1:])],
                cwd=tmp_path,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(name: str) -> str:
        return " ".join((tmp_path / f"{name}.log").read_text().split())

    def link(name: str) -> None:
        keys = ["--ssl-ca-certfile", tls["ca"], "--ssl-certfile", tls["cert"]]
        keys += ["--ssl-keyfile", tls["key"], "--disable-runtime-dependency-installation"]
        keys += ["--enable-supernode-auth", "--database", "flower.db"]
        start(name, "flower-superlink", "--host", "127.0.0.1", "--port", port, *keys)
        wait_until(lambda: listens(port))

    def node(number: int) -> None:
        where = ["--superlink", f"127.0.0.1:{port}", "--root-certificates", tls["ca"]]
        where += ["--auth-supernode-private-key", f"key-{number}", "--port", str(free_port())]
        config = f'release="{project["release"]}"'
        start(f"node-{number}", "flower-supernode", *where, "--node-config", config)

    def run(name: str, seconds: int) -> None:
        given = project | {"seconds": seconds}
        config = " ".join(f"{key}={json.dumps(value)}" for key, value in given.items())
        start(name, "flwr", "run", app, "test", "--stream", "--run-config", config)

    def kill(*names: str) -> None:
        """And all that they started, in whatever session."""
        first = [psutil.Process(started[name].pid) for name in names]
        every = [*first, *(child for one in first for child in one.children(recursive=True))]
        for process in every:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(every)

    try:
        link("link-1")
        keys = [key(tmp_path / f"key-{number}") for number in range(3)]
        (tmp_path / "clients.pub").write_text("".join(keys))
        for number in range(3):
            start("register", "flwr", "supernode", "register", f"key-{number}.pub", "test")
            assert started["register"].wait(60) == 0
            node(number)
        run("run-1", 600)
        wait_until((tmp_path / "working").exists)
        wait_until(lambda: log("node-0").count("Sent successfully") == 2)
        wait_until(lambda: "client 1, round 2: update" in log("run-1"))
        kill("link-1", "run-1", "node-2")
        link("link-2")
        run("run-2", 60)
        assert started["run-2"].wait(180) == 0
    finally:
        for name, process in started.items():
            if process.poll() is None:
                kill(name)
            print(name, (tmp_path / f"{name}.log").read_text(), sep="\n")
    before, after = log("run-1"), log("run-2")
    for told, round_ in ((before, 1), (before, 2), (after, 2)):
        assert re.search(rf"client 1, round {round_}: update\.\S+: got a number that is not", told)
    assert re.search("client 2, round 2: got (no answer|an error)", after)
    assert "client 0, round" not in before + after
    assert re.findall(r"round \d of 2", before) == ["round 1 of 2"]
    assert re.findall(r"round \d of 2", after) == ["round 2 of 2"]
    assert (tmp_path / "out/adapter/rapt.json").exists()
    replayed(project, {0, 2}, {0})
