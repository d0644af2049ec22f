"""A federated training over Flower 1.42, which carries the messages. The laws are rapt's.

`flwr run pipelines/flower` starts the server's app, which asks the nodes' (docs/federated.md). On a
node each message starts a process, which ends with its answer. Flower is no dependency of rapt: it
lies in .venv/flower, and is imported where it is used alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from rapt import models, params, paths
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed

if TYPE_CHECKING:
    from rapt.federated.server import Server
    from rapt.tuning.config import Run
    from rapt.tuning.inputs import Reader
    from rapt.tuning.trainer import Trainer
    from rapt.tuning.tuners import Federated

__all__ = ["client_app", "server_app"]  # noqa: F822 `flwr run` reads here that they are there

Content = dict[str, int | bytes]  # of a message
RECORD = "rapt"  # its name in Flower's messages
LOG = logging.getLogger("flwr")  # which `flwr log` shows


class Nodes:
    """The machines of the clients, by the number that Flower gives to each.

    It checks their signatures; `clients` has the client of each public key.
    """

    def __init__(self, grid: Any, clients: Mapping[bytes, int]) -> None:
        self._grid, self._clients = grid, clients
        self._strange: set[int] = set()

    def online(self) -> Mapping[int, int]:
        """Return the client of each node that is connected."""
        found = {node.node_id: node.public_key for node in self._grid.get_nodes()}
        strange = {node for node, key in found.items() if key not in self._clients}
        for node in strange - self._strange:
            LOG.warning("node %d: got a key of no client, expected one. It is not asked.", node)
        self._strange |= strange
        return {node: self._clients[key] for node, key in found.items() if node not in strange}

    def ask(
        self, contents: Mapping[int, Content], seconds: float
    ) -> Iterator[tuple[int, Content | None]]:
        """Send each node its message, and yield each node with its answer as it comes.

        An answer is None where it is an error or another program's message. After so many seconds
        nobody waits any longer.
        """
        from flwr.app import ConfigRecord, Message, RecordDict

        sent = [
            Message(RecordDict({RECORD: ConfigRecord(dict(content))}), node, "train")
            for node, content in contents.items()
        ]
        # By the message, as a node might write another's number on its answer.
        ids = zip(self._grid.push_messages(sent), contents, strict=True)
        waiting = {message: node for message, node in ids if message}
        end = time.monotonic() + seconds
        while waiting and time.monotonic() < end:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:  # its first answer
                    yield node, None if reply.has_error() else _read(reply)
            time.sleep(1)


def play(server: Server, nodes: Nodes, seconds: float) -> None:
    """Play the rounds that are left. A client that does not answer counts as no change.

    Args:
        server: of the training.
        nodes: all that there are.
        seconds: that a round waits for its clients, and the first one for all to be there.

    Raises:
        RaptError: no client is connected for so long; the rounds before are kept.
    """
    from rapt.federated.server import encoded

    if not server.ended:
        _online(nodes, server.law.how.clients, seconds)
    while not server.ended:
        online = _online(nodes, 1, seconds)
        if not online:  # its rounds would all end at once, each with its noise alone
            raise RaptError(
                f"round {server.round + 1}: got no client that is connected, expected some. Start "
                "them, and run again with the same out: it goes on with this round."
            )
        drawn, round_, weights = set(server.drawn()), server.round, encoded(server.weights)
        asked = {node: client for node, client in online.items() if client in drawn}
        # Flower lets any node that knows a message's hash answer it: nobody may guess one.
        contents: dict[int, Content] = {
            node: {"round": round_, "client": client, "weights": weights, "salt": token_bytes(16)}
            for node, client in asked.items()
        }
        for node, answer in nodes.ask(contents, seconds):
            drawn.remove(asked[node])
            try:
                _take(server, asked[node], answer)
            except RaptError as error:
                LOG.warning("%s It counts as no change.", error)
        for client in sorted(drawn):
            where = f"client {client}, round {round_ + 1}"
            LOG.warning("%s: got no answer, expected one. It counts as no change.", where)
        server.close()
        LOG.info("round %d of %d has ended", server.round, server.law.how.rounds)


def _online(nodes: Nodes, count: int, seconds: float) -> Mapping[int, int]:
    """Wait until as many clients are connected, and return those that are."""
    end = time.monotonic() + seconds
    while len(online := nodes.online()) < count and time.monotonic() < end:
        time.sleep(1)
    return online


def _take(server: Server, client: int, answer: Content | None) -> None:
    from rapt.federated.server import decoded

    where = f"client {client}, round {server.round + 1}"
    if answer is None:
        raise RaptError(f"{where}: got an error, expected a change. See the log of its node.")
    round_, change = answer.get("round"), answer.get("change")
    if not (isinstance(round_, int) and isinstance(change, bytes)):
        raise RaptError(f"{where}: got another message, expected a change. Take the same rapt.")
    try:
        update = decoded(change)
    except RaptError:
        raise RaptError(f"{where}: got {len(change)} bytes, expected safetensors.") from None
    server.take(client, round_, update)


def serve(config: Mapping[str, Any], nodes: Nodes) -> None:
    """Train among the nodes, and write the state of the server and at the end the adapter.

    Args:
        config: of the run, as in pipelines/flower/pyproject.toml.
        nodes: all that there are.

    Raises:
        RaptError: the server's project lacks something, the state is of another training, or
            another run goes on with it.
    """
    from filelock import FileLock, Timeout

    out = Path(config["out"])
    out.mkdir(parents=True, exist_ok=True)
    try:
        # Two runs would draw the same noise, and whoever sees both sums could take it off. The
        # system frees the lock when the process dies.
        with FileLock(out / "lock", timeout=0):
            _serve(config, nodes, out)
    except Timeout:
        raise RaptError(
            f"{out}: got another run that trains there, expected none. Wait for its end, or end "
            "it by flwr stop."
        ) from None


def _serve(config: Mapping[str, Any], nodes: Nodes, out: Path) -> None:
    from rapt.federated import client
    from rapt.federated.laws import Law
    from rapt.federated.server import SavedServer
    from rapt.tuning import inference_spec
    from rapt.tuning.checkpoints import give
    from rapt.tuning.model import save

    run, how = run_of(config, Path(config["release"]))
    trainer, _ = trainer_of(run)
    server = SavedServer(Law.of(how), client.learned(trainer), out / "state.safetensors")
    play(server, nodes, float(config["seconds"]))
    give(trainer.learning(), server.weights)
    with files.atomic(out / "adapter") as scratch:
        save(trainer.model, scratch, run.backbone_name)
        statement = files.read_json(paths.statement(run.release))
        done = replace(run, adapter=scratch)
        inference_spec.write(done, statement, 0, server.law.statement())
    LOG.info("%s has the adapter", out / "adapter")


def numbered(file: str) -> dict[bytes, int]:
    """Return the client of each public key (PEM), by a file with a line of OpenSSH for each client.

    Its first line is client 0's.

    Raises:
        RaptError: a line is no key, or two clients have the same.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_ssh_public_key,
    )

    found: dict[bytes, int] = {}
    for number, line in enumerate(Path(file).read_bytes().splitlines()):
        try:
            key = load_ssh_public_key(line)
        except (ValueError, UnsupportedAlgorithm):
            raise RaptError(
                f"{file}, line {number + 1}: got no public key, expected one as ssh-keygen writes."
            ) from None
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        if found.setdefault(pem, number) != number:
            raise RaptError(
                f"{file}, line {number + 1}: got the key of client {found[pem]}, expected another."
            )
    return found


def change(config: Mapping[str, Any], node: Mapping[str, Any], content: Content) -> Content:
    """Return how the weights change by a client's steps on its release.

    Args:
        config: of the run, as in pipelines/flower/pyproject.toml.
        node: its configuration, which names the folder of its release.
        content: of the server's message.

    Raises:
        RaptError: the client's project lacks something, or fits another server.
    """
    from rapt.federated import client
    from rapt.federated.laws import check, generator
    from rapt.federated.server import decoded, encoded
    from rapt.tuning.inputs import read_columns

    round_, sent, own = content["round"], content["weights"], content["client"]
    assert isinstance(round_, int) and isinstance(sent, bytes) and isinstance(own, int)
    weights = decoded(sent)
    run, how = run_of(config, Path(node["release"]))
    trainer, reader = trainer_of(run)
    check(weights, client.learned(trainer))
    columns, vectors = read_columns(paths.seed(run.release, run.k) / "train.parquet")
    split = run.kind.tokenized(columns, reader, vectors)
    trainer.run = replace(client.local(run, how), cell=f"client {own}, round {round_ + 1}")
    seed = generator(str(run.seed), "steps", round_, own).integers(2**63)
    return {"round": round_, "change": encoded(client.update(trainer, split, weights, int(seed)))}


def run_of(config: Mapping[str, Any], release: Path) -> tuple[Run, Federated]:
    """Return what a server or a client trains, by the params.yaml of its project.

    Raises:
        RaptError: params.yaml has no such tuner or backbone, or the tuner is of no clients.
    """
    from rapt.kinds import kind_of
    from rapt.tuning.config import Run

    p = params.load()
    for key, names in (("backbone", p.backbones), ("tuner", p.tuners)):
        if config[key] not in names:
            raise RaptError(not_allowed(key, config[key], names))
    backbone, tuner = p.backbones[config["backbone"]], p.tuners[config["tuner"]]
    how = getattr(tuner, "federated", None)
    if how is None:
        raise RaptError(f"tuners.{config['tuner']}: got no section federated, expected one.")
    written = paths.backbone(config["backbone"])
    folder = models.folder(backbone.model, backbone.sha256)
    run = Run(
        cell="federated",
        release=release,
        k=0,
        seed=p.seed,
        backbone=models.of_source(written) if backbone.pretrained else folder,
        backbone_name=str(written) if backbone.pretrained else backbone.model,
        backbone_sha256=None if backbone.pretrained else backbone.sha256,
        encoder=backbone.encoder,
        tuner=tuner,
        train=p.train,
        adapter=Path(),  # the server writes one at the end
        kind=kind_of(files.read_json(paths.statement(release))),
        decoding=p.decoding,
    )
    return run, how


def trainer_of(run: Run) -> tuple[Trainer, Reader]:
    """Return a run's trainer before its first step, and how its model reads texts.

    Raises:
        RaptError: the backbone does not suit.
    """
    import torch

    from rapt.tuning.model import adapt
    from rapt.tuning.train import backbone_of
    from rapt.tuning.trainer import Trainer

    torch.set_num_threads(1)  # with more, sums depend on the number of threads
    torch.manual_seed(run.seed)
    backbone, reader = backbone_of(run, files.read_json(paths.statement(run.release)))
    model = run.kind.model(adapt(backbone, run.tuner), reader, run.train.precision)
    return Trainer(run, model, reader.pad), reader


def __getattr__(name: str) -> Any:
    """Return one of Flower's two apps."""
    if name == "server_app":
        return _server_app()
    if name == "client_app":
        return _client_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _server_app() -> Any:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        serve(context.run_config, Nodes(grid, numbered(str(context.run_config["keys"]))))

    return app


def _client_app() -> Any:
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        content = _read(message) or {}
        try:
            sent = change(context.run_config, context.node_config, content)
        except RaptError:
            raise
        except Exception as error:  # Flower sends its words to the server: they may quote a text
            raise RaptError(f"client: got {type(error).__name__}, expected a change.") from None
        return Message(RecordDict({RECORD: ConfigRecord(dict(sent))}), reply_to=message)

    return app


def _read(message: Any) -> Content | None:
    """Return the content of one of Flower's messages, None of another program's."""
    record = message.content.get(RECORD)
    return None if record is None else dict(record)
