"""A client of a federated training: what it sends, and which line an error of it has."""

from dataclasses import replace

import pytest
import torch

from rapt.federated import client
from rapt.federated.laws import norm
from rapt.tuning.checkpoints import NoCheckpoint
from rapt.tuning.config import Run
from rapt.tuning.tuners import Federated
from rapt.utils.errors import RaptError
from tests.tuning.conftest import backbone as backbone
from tests.tuning.conftest import release as release
from tests.tuning.conftest import run as run
from tests.tuning.conftest import texts, trainer_of


def test_a_change_is_of_what_learns_alone(run: Run) -> None:
    made = trainer_of(run)
    before = client.learned(made)
    made.run = client.local(made.run, Federated(clients=12))
    change = client.update(made, texts(run).of(range(8)), before, 0)
    assert change.keys() == before.keys() == made.learning().keys()
    assert not [name for name in change if "lora" not in name and "head" not in name]
    assert 0 < norm(change) < 0.02 * sum(w.numel() for w in change.values()) ** 0.5
    again = client.update(made, texts(run).of(range(8)), before, 0)
    assert all(torch.equal(change[name], again[name]) for name in change)


def test_a_client_s_error_names_its_round(run: Run) -> None:
    made = trainer_of(run)
    made.run = replace(client.local(made.run, Federated(clients=12)), cell="x, round 3, client 7")
    with torch.no_grad():
        next(iter(made.learning().values())).fill_(float("nan"))
    with pytest.raises(RaptError, match="x, round 3, client 7, seed 0, step 1 of 1: got a loss"):
        made.take_steps(texts(run).of(range(8)), NoCheckpoint())
