"""The server of a federated training: sums, restarts, clients that drop out, lie or come late."""

from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rapt.federated.laws import Law, Weights
from rapt.federated.server import SavedServer, Server, decoded, encoded
from rapt.tuning.tuners import Federated
from rapt.utils.errors import RaptError

WEIGHTS = {"b": torch.ones(2), "a": torch.zeros(2, 2)}


def law(**values: Any) -> Law:
    """Without solving for the noise, which takes a second."""
    given: dict[str, Any] = {"clients": 10, "rounds": 4, "rate": 0.5, "clip": 2.0} | values
    how = Federated(**given)
    return Law(how, 0.7 if how.epsilon else 0.0, 5.0 if how.epsilon and how.adaptive else 0.0)


def update(size: float) -> Weights:
    return {"a": torch.full((2, 2), size), "b": torch.zeros(2)}


def play(server: Server, size: float = 0.5, rounds: int = 1) -> Server:
    for _ in range(rounds):
        for client in reversed(server.drawn()):  # whoever comes first
            server.take(client, server.round, update(size * (client + 1)))
        server.close()
    return server


def same(one: Server, other: Server) -> bool:
    return one.round == other.round and all(
        torch.equal(one.weights[name], other.weights[name]) for name in one.weights
    )


def test_the_sum_has_a_fixed_denominator_and_scaled_updates() -> None:
    """5 clients of a round on average; norms of 1 and of 8, of which 2 is left."""
    server = Server(law(), WEIGHTS, "0")
    first, second, *_ = server.drawn()
    server.take(first, 0, update(0.5))
    server.take(second, 0, update(4.0))
    server.close()
    torch.testing.assert_close(server.weights["a"], torch.full((2, 2), (0.5 + 1.0) / 5))
    torch.testing.assert_close(server.weights["b"], torch.ones(2))


def test_a_client_changes_a_round_by_at_most_the_norm() -> None:
    """Whatever it sends: the same noise, the same others. Counts of examples have no part."""
    sums = []
    for size in (None, 1e30, -1e30):
        server = Server(law(epsilon=8.0, delta=0.05), WEIGHTS, "0")
        client, *others = server.drawn()
        for other in others:
            server.take(other, 0, update(0.1))
        if size is not None:
            server.take(client, 0, update(size))
        server.close()
        sums.append(torch.cat([w.double().flatten() for w in server.weights.values()]))
    for one in sums[1:]:
        assert (one - sums[0]).norm() * 5 == pytest.approx(2.0, rel=1e-5)


def test_who_lies_or_comes_late_counts_as_none() -> None:
    server, honest = Server(law(), WEIGHTS, "0"), Server(law(), WEIGHTS, "0")
    liar, late, *others = server.drawn()
    absent = next(n for n in range(10) if n not in server.drawn())
    for other in others:
        server.take(other, 0, update(0.1))
        honest.take(other, 0, update(0.1))
    refused = [
        (liar, 0, update(float("nan")), f"client {liar}, round 1: update.a: got a number"),
        (liar, 0, {"a": torch.zeros(3)}, f"client {liar}, round 1: update: got 1 weights"),
        (others[0], 0, update(0.1), "that was counted before, or not asked for"),
        (absent, 0, update(0.1), "that was counted before, or not asked for"),
        (late, 1, update(0.1), "got an update of round 2, expected one of round 1. It came late"),
    ]
    for client, round_, sent, line in refused:
        with pytest.raises(RaptError, match=line):
            server.take(client, round_, sent)
    server.close()
    honest.close()
    assert same(server, honest)
    with pytest.raises(RaptError, match="It came late"):
        server.take(late, 0, update(0.1))


def test_a_round_that_nobody_answers_is_noise() -> None:
    server = Server(law(epsilon=8.0, delta=0.05), WEIGHTS, "0")
    server.close()
    assert server.round == 1 and not torch.equal(server.weights["b"], WEIGHTS["b"])


@pytest.mark.parametrize("kind", ["sampled", "tree", "banded"])
def test_a_server_that_is_killed_in_a_round_comes_to_the_same_end(
    tmp_path: Path, kind: str
) -> None:
    how = law(epsilon=8.0, delta=0.05, law=kind, adaptive=kind == "sampled")
    whole = play(SavedServer(how, WEIGHTS, tmp_path / "whole"), rounds=1)
    (tmp_path / "killed").write_bytes((tmp_path / "whole").read_bytes())
    play(whole, rounds=3)
    killed = SavedServer(how, WEIGHTS, tmp_path / "killed")
    client = killed.drawn()[0]
    killed.take(client, 1, update(9.0))  # lost with the process
    again = SavedServer(how, WEIGHTS, tmp_path / "killed")
    assert client in again.drawn()
    play(again, rounds=3)
    assert again.ended and same(again, whole) and again.clip == whole.clip


def test_the_state_is_its_owner_s_and_of_one_training(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = SavedServer(law(), WEIGHTS, path)
    assert path.stat().st_mode & 0o777 == 0o600
    second = SavedServer(law(), WEIGHTS, tmp_path / "other")
    assert [first.law.drawn(s._secret, 0) for s in (first, second)].count(first.drawn()) == 1
    with pytest.raises(RaptError, match="state of a training with other parameters"):
        SavedServer(law(epsilon=8.0, delta=0.05), WEIGHTS, path)
    with pytest.raises(RaptError, match="state of a training with other parameters"):
        SavedServer(law(), {"a": torch.zeros(2, 2)}, path)
    with pytest.raises(RaptError, match="state of a training with other parameters"):
        SavedServer(law(), WEIGHTS | {"a": torch.zeros(4, 2)}, path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(RaptError, match="got a damaged state"):
        SavedServer(law(), WEIGHTS, path)


@pytest.mark.parametrize(
    ("begins", "epsilon"), [(0.1, None), (0.9, None), (1.1, None), (10.0, None), (10.0, 8.0)]
)
def test_the_norm_follows_the_median(begins: float, epsilon: float | None) -> None:
    """Andrew et al., 2021: medians of 1, 60 rounds. Flower's rule runs away from .1, .9, 1.1, 10.

    With noise the end varies by about .1 in logarithm: the bound is of 4 standard deviations.
    """
    how = law(
        **{"clients": 100, "rounds": 60, "clip": begins, "adaptive": True, "epsilon": epsilon}
    )
    server, rng = Server(how, {"a": torch.zeros(1)}, "0"), np.random.default_rng(0)
    while not server.ended:
        for client in server.drawn():
            server.take(client, server.round, {"a": torch.tensor([exp(rng.normal(0, 0.5))])})
        server.close()
    assert abs(np.log(server.clip)) < (0.15 if epsilon is None else 0.4)


def test_the_wire_has_safetensors_alone() -> None:
    sent = decoded(encoded(update(0.3)))
    assert all(torch.equal(sent[name], value) for name, value in update(0.3).items())
    too_large = b'{"a":{"dtype":"F32","shape":[0,9223372036854775808],"data_offsets":[0,0]}}'
    too_large = len(too_large).to_bytes(8, "little") + too_large
    for content in (b"", b"{}", b"\x80\x04K\x01.", encoded(update(1.0))[:-3], too_large):
        with pytest.raises(RaptError, match="expected safetensors"):
            decoded(content)
