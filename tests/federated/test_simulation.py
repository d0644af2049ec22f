"""A federated training in one process: what its clients do, its checkpoint, and its statement."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rapt.federated.laws import Law
from rapt.federated.server import Server
from rapt.federated.simulation import Simulation
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Run
from rapt.tuning.train import train_seed, train_seeds
from rapt.tuning.tuners import Federated, Lora
from rapt.utils.device import device_name
from rapt.utils.errors import RaptError
from tests.tuning.conftest import backbone as backbone
from tests.tuning.conftest import release as release
from tests.tuning.conftest import run as run


def federated(run: Run, noise: float = 0.0, **values: Any) -> Run:
    """The same run among 12 clients of 8 texts; the noise is not solved for."""
    given: dict[str, Any] = {"clients": 12, "rounds": 6, "rate": 0.5, "clip": 5.0, "epochs": 4}
    how = Federated(**given | values)
    tuner = Lora(r=4, alpha=8, dropout=0.0, learning_rate=0.02, federated=how)
    return replace(run, tuner=tuner, fitting=Simulation(Law(how, noise), "0 0"))


def test_clients_learn_together(run: Run) -> None:
    found = train_seed(federated(run))
    assert found.metrics["accuracy"] > 0.9 and found.curves == {}


def test_every_text_has_one_client(run: Run) -> None:
    shares = Simulation(Law(Federated(clients=7)), "0 0").shares(range(96))
    assert sorted(row for rows in shares for row in rows) == list(range(96))
    assert {len(rows) for rows in shares} == {13, 14}
    assert shares != Simulation(Law(Federated(clients=7)), "0 1").shares(range(96))


def test_an_author_has_one_client(run: Run) -> None:
    owners = [row % 10 for row in range(96)]
    shares = Simulation(Law(Federated(clients=7)), "0 0").shares(owners)
    assert sorted(row for rows in shares for row in rows) == list(range(96))
    authors = [{owners[row] for row in rows} for rows in shares]
    assert sum(map(len, authors)) == 10 and {len(own) for own in authors} == {1, 2}


def test_a_killed_run_goes_on_and_comes_to_the_same_end(run: Run, tmp_path: Path) -> None:
    def weights(made: Run) -> bytes:
        return (made.adapter / "adapter_model.safetensors").read_bytes()

    one = replace(
        federated(run, noise=2.0, law="tree", rounds=4, clip=0.1), adapter=tmp_path / "one"
    )
    (whole,) = train_seeds([one])
    assert whole.checkpoint and whole.training and whole.training["clients"] == 12
    whole.checkpoint.unlink()

    def dying(self: Server) -> None:
        if self.round == 2:
            raise KeyboardInterrupt
        close(self)

    close = Server.close
    other = replace(one, adapter=tmp_path / "other")
    checkpoint = Checkpoint(other, device_name())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "close", dying)
        with pytest.raises(KeyboardInterrupt):
            train_seeds([other])
    assert checkpoint.step() == "step 2"
    train_seed(other)
    assert weights(other) == weights(one)
    contract = json.loads((other.adapter / "rapt.json").read_text())
    assert contract["training"] == whole.training


def test_more_clients_than_texts_are_refused(run: Run) -> None:
    with pytest.raises(RaptError, match=r"federated.clients: got 97 for 96 texts, expected at"):
        train_seed(federated(run, clients=97))
