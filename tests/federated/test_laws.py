"""The laws of federated tuning: known sensitivities, ε, clipping, and the noise that is drawn."""

from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rapt.federated.laws import (
    Law,
    Noise,
    Weights,
    banded,
    check,
    clipped,
    coefficients,
    nodes,
    norm,
    sensitivity,
    tree,
)
from rapt.tuning.accounting import noise_for
from rapt.tuning.tuners import Federated, FederatedLaw, Lora
from rapt.utils.errors import RaptError

LIKE = {"a": torch.zeros(2, 3), "b": torch.zeros(4)}


def test_the_tree_s_sensitivity_is_the_bit_length() -> None:
    """Kairouz et al., 2021: of a client with one turn, whichever it is."""
    found = {rounds: sensitivity(tree(rounds), rounds) ** 2 for rounds in (1, 2, 4, 8, 100, 1000)}
    assert found == pytest.approx({1: 1, 2: 2, 4: 3, 8: 4, 100: 7, 1000: 10})


def test_the_coefficients_are_those_of_the_square_root_of_prefix_sums() -> None:
    assert coefficients(4).tolist() == [1, 0.5, 0.375, 0.3125]
    root = banded(12, 12)
    np.testing.assert_allclose(root @ root, np.tril(np.ones((12, 12))), atol=1e-12)


@pytest.mark.parametrize(("band", "squared", "error"), [(1, 1.0, 2.0), (2, 1.25, 1.5625)])
def test_two_rounds_by_hand(band: int, squared: float, error: float) -> None:
    """The largest variance of a prefix sum's error, over σ²: independent noise, and A^½."""
    matrix = banded(2, band)
    found = sensitivity(matrix, 2) ** 2
    rows = np.tril(np.ones((2, 2))) @ np.linalg.inv(matrix)
    assert found == pytest.approx(squared)
    assert found * (rows**2).sum(1).max() == pytest.approx(error)


@given(st.integers(1, 40), st.integers(1, 8))
def test_turns_a_band_apart_cost_one_column_each(rounds: int, band: int) -> None:
    """Δ² = k · ‖c‖² for k whole turns: the columns do not overlap."""
    rounds = rounds * band
    expected = rounds / band * (coefficients(band) ** 2).sum()
    cut = (coefficients(band) ** 2).sum() - 1  # the last turn's column may be cut
    found = sensitivity(banded(rounds, band), band) ** 2
    assert expected - cut - 1e-9 <= found <= expected + 1e-9


@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_no_updates_of_norm_one_change_more_than_the_sensitivity(
    rounds: int, apart: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for matrix in (tree(rounds), banded(rounds, apart)):
        updates = np.zeros((rounds, 3))
        turns = slice(int(rng.integers(apart)), None, apart)
        sent = rng.normal(size=updates[turns].shape)
        updates[turns] = sent / np.maximum(1, np.linalg.norm(sent, axis=1, keepdims=True))
        bound = sensitivity(matrix, apart)
        assert np.linalg.norm(matrix @ updates) <= bound + 1e-9


def test_the_nodes_of_a_prefix_are_its_bits() -> None:
    assert nodes(0) == [] and nodes(8) == [(0, 8)] and nodes(7) == [(0, 4), (4, 2), (6, 1)]
    for end in range(200):
        covered = [leaf for start, size in nodes(end) for leaf in range(start, start + size)]
        assert covered == list(range(end))


@pytest.mark.parametrize("law", ["sampled", "tree", "banded"])
def test_the_noise_has_the_law_s_covariance(law: FederatedLaw) -> None:
    """Of 7 rounds, over 20,000 numbers: each covariance is within 6 standard errors."""
    noise = Noise(Law(Federated(clients=50, rounds=7, rate=0.34, law=law), 2.0), "0", 20_000)
    drawn = np.stack([noise.of(round_) for round_ in range(7)]) / 2.0
    if law == "tree":  # the noise of each prefix is that of its nodes
        prefixes = [{*nodes(end)} for end in range(1, 8)]
        expected = np.array([[len(a & b) for b in prefixes] for a in prefixes], float)
        drawn = drawn.cumsum(0)
    else:
        inverse = np.linalg.inv(banded(7, 1 if law == "sampled" else 3))
        expected = inverse @ inverse.T
    errors = np.sqrt((np.outer(expected.diagonal(), expected.diagonal()) + expected**2) / 20_000)
    assert (np.abs(drawn @ drawn.T / 20_000 - expected) < 6 * errors).all()


@pytest.mark.parametrize("law", ["sampled", "tree", "banded"])
def test_a_new_process_draws_the_same_noise(law: FederatedLaw) -> None:
    how = Law(Federated(clients=50, rounds=9, law=law), 2.0)
    first, second = Noise(how, "secret", 5), Noise(how, "secret", 5)
    every = [first.of(round_) for round_ in range(9)]
    np.testing.assert_array_equal(second.of(7), every[7])
    np.testing.assert_array_equal(second.of(8), every[8])
    assert not np.array_equal(Noise(how, "other", 5).of(7), every[7])


@pytest.mark.parametrize(
    ("law", "adaptive"), [("sampled", False), ("sampled", True), ("tree", False), ("banded", False)]
)
def test_what_is_solved_for_is_what_is_spent(law: FederatedLaw, adaptive: bool) -> None:
    given = {"clients": 100, "rounds": 20, "rate": 0.125, "epsilon": 3.0, "delta": 1e-3}
    how = Federated.model_validate(given | {"law": law, "adaptive": adaptive})
    stated = Law.of(how).statement()
    assert 2.9 < stated["epsilon"] <= 3 and stated["clients"] == 100
    if law == "sampled":
        total = noise_for(3, 1e-3, 0.125, 20)  # as test_private.py has solved for
        assert stated["noise"] > total if adaptive else stated["noise"] == total


def test_a_client_that_turns_up_again_costs_more() -> None:
    once, often = (
        Law(Federated(clients=50, rounds=20, rate=rate, law="tree")).sensitivity
        for rate in (0.05, 0.5)
    )
    assert once == pytest.approx(sqrt(5)) and often > 2 * once


def test_each_client_has_its_turn_once_in_so_many_rounds() -> None:
    law = Law(Federated(clients=23, rounds=10, rate=0.25, law="tree"))
    rounds = [law.drawn("0", round_) for round_ in range(8)]
    assert sorted(client for drawn in rounds[:4] for client in drawn) == list(range(23))
    assert rounds[4:] == rounds[:4]


def test_each_client_is_drawn_by_itself_with_one_probability() -> None:
    """Over 2,000 rounds; bounds are of 5 standard deviations."""
    law = Law(Federated(clients=20, rounds=10, rate=0.3))
    drawn = np.zeros((2000, 20))
    for round_ in range(2000):
        drawn[round_, law.drawn("0", round_)] = 1
    assert np.abs(drawn.mean(0) - 0.3).max() < 5 * sqrt(0.21 / 2000)
    spread = drawn.sum(1).var(ddof=1)  # a fixed number of clients would have none
    assert spread == pytest.approx(20 * 0.21, rel=5 * sqrt(2 / 2000))


def update_of(size: float) -> Weights:
    return {"a": torch.full((2, 3), size), "b": torch.full((4,), -size)}


@given(size=st.floats(0, 2.0**100, width=32), clip=st.floats(1e-3, 1e3))
def test_no_scaled_update_is_longer_than_the_norm(size: float, clip: float) -> None:
    update = update_of(size)
    scaled = clipped(update, clip)
    assert norm(scaled) <= clip * (1 + 1e-12)
    if norm(update) <= clip:  # zero is one of them
        assert all(torch.equal(scaled[name], update[name].double()) for name in update)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"a": torch.full((2, 3), float("nan"))}, "update.a: got a number that is not finite"),
        ({"b": torch.tensor([0, 0, 0, float("inf")])}, "update.b: got a number that is not finite"),
        ({"a": torch.zeros(3, 2)}, r"update.a: got torch.float32 \(3, 2\), expected"),
        ({"b": torch.zeros(4, dtype=torch.float64)}, r"update.b: got torch.float64 \(4,\)"),
        ({"c": torch.zeros(1)}, "other names, as c, expected the 2 that learn"),
    ],
)
def test_what_cannot_be_an_update_is_refused_by_name(change: Weights, line: str) -> None:
    check(update_of(0.0), LIKE)
    with pytest.raises(RaptError, match=line):
        check(update_of(0.0) | change, LIKE)
    with pytest.raises(RaptError, match="as b, expected"):
        check({"a": torch.zeros(2, 3)}, LIKE)


@pytest.mark.parametrize(
    ("given_", "line"),
    [
        ({"clients": 50, "epsilon": 3, "delta": 0.02}, "got delta 0.02 for 50 clients"),
        ({"clients": 50, "adaptive": True, "law": "tree"}, "got adaptive with law tree"),
        ({"clients": 2}, "greater than or equal to 3"),
    ],
)
def test_a_section_that_promises_nothing_is_refused(given_: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        Federated.model_validate(given_)


def test_a_tuner_makes_one_promise() -> None:
    with pytest.raises(ValueError, match="got private and federated, expected one"):
        Lora.model_validate({"private": {"epsilon": 3.0}, "federated": {"clients": 5}})


def test_an_epsilon_that_no_noise_reaches_is_refused_in_one_line() -> None:
    how = Federated(clients=50, rounds=1000, rate=1.0, epsilon=1e-4)
    with pytest.raises(RaptError, match=r"federated.epsilon: got 0.0001 .* take fewer rounds"):
        Law.of(how)


def test_a_count_of_too_few_clients_is_refused() -> None:
    how = Federated(clients=50, epsilon=3, adaptive=True)
    with pytest.raises(RaptError, match=r"federated.adaptive: got true at noise .* and 10 clients"):
        Law.of(how)
