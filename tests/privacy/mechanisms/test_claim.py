"""Claims are stated by each class, and their bounds chain."""

from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.privacy.mechanisms import MECHANISMS, PCT2T, T2T, Space, mechanism
from rapt.privacy.mechanisms.claim import NO_BOUND, NOTHING, TAGS, Bound, Claim, euclidean

# Whole numbers and powers of two: every sum is exact.
ETAS, DISTANCES = st.integers(1, 100), st.integers(0, 100)
CLAIMS = [MECHANISMS[name].claim for name in ("t2t", "pct2t", "santext", "imola", "adept")]


def bound_of(claim: Claim, eta: float = 1.0) -> Bound:
    return claim.at(eta, claim.metric.name, 1000)


bounds = st.one_of(
    st.builds(bound_of, st.sampled_from(CLAIMS), ETAS), st.sampled_from([NOTHING, NO_BOUND])
)
of_one_metric = st.builds(bound_of, st.sampled_from(CLAIMS[:3]), ETAS)


def seen(bound: Bound) -> tuple[Any, ...]:
    losses = [bound.loss(distance) for distance in (0, 1, 7)]
    return bound.metric, losses, bound.delta, bound.conditions, bound.proven


def test_distances_are_euclidean_in_float64(plane: Space) -> None:
    one, other = np.array([[0, 0], [1, 1]], np.float32), np.array([[3, 4], [1, 1]], np.float32)
    found = euclidean(one, other)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [5, 0])
    np.testing.assert_array_equal(T2T().distance(plane, one, other), found)


def test_a_loss_is_at_most_eta_times_the_distance() -> None:
    assert T2T.claim.loss(2.0, 3.0) == bound_of(T2T.claim, 2.0).loss(3.0) == 6.0


@pytest.mark.parametrize("kind", MECHANISMS.values())
def test_a_subclass_inherits_no_claim(kind: Any, plane: Space) -> None:
    @dataclass(frozen=True)
    class Own(kind):  # type: ignore[misc]
        name = "own"

    class OfThat(Own):
        claim = kind.claim

    made = Own()
    assert Own.claim == made.claim == Claim() != OfThat.claim
    assert made.claim.law("3") == "no guarantee"
    assert not bound_of(made.claim).proven
    assert made.distance(plane, plane.vectors[:1], plane.vectors[1:2]) == inf


def test_pct2t_claims_what_t2t_does_within_categories() -> None:
    assert T2T.claim.within_categories() == PCT2T.claim == PCT2T.claim.within_categories()
    assert TAGS in PCT2T.claim.conditions
    assert PCT2T.claim.law("75").endswith("for all words w, w' of one category and all y")
    assert not Claim().within_categories().proof


def test_a_claim_without_a_proof_is_none() -> None:
    unproven = replace(T2T.claim, proof=())
    assert unproven.law("1") == "no guarantee"
    assert seen(bound_of(unproven)) == seen(NO_BOUND)


@given(bounds, bounds, bounds)
def test_composition_is_associative_and_commutative(a: Bound, b: Bound, c: Bound) -> None:
    assert seen((a + b) + c) == seen(a + (b + c))
    assert seen(a + b) == seen(b + a)
    assert seen(a + NOTHING) == seen(a)
    assert seen(a + NO_BOUND) == seen(NO_BOUND)


@given(of_one_metric, of_one_metric, DISTANCES, DISTANCES)
def test_composition_adds_losses_and_deltas(a: Bound, b: Bound, near: int, more: int) -> None:
    both = a + b
    assert both.loss(near) == a.loss(near) + b.loss(near)
    assert both.loss(near) <= both.loss(near + more)
    assert both.loss(near) >= max(a.loss(near), b.loss(near))
    assert both.delta == a.delta + b.delta
    assert both.conditions == a.conditions | b.conditions
    assert both.proven


@given(bounds, st.integers(0, 8))
def test_n_words_are_the_sum_of_n_bounds(a: Bound, n: int) -> None:
    assert seen(n * a) == seen(reduce(add, n * [a], NOTHING))


def test_a_delta_is_a_probability() -> None:
    half = replace(bound_of(T2T.claim), delta=0.5)
    assert (half + half + half).delta == (3 * half).delta == 1


def test_different_metrics_have_no_bound() -> None:
    kinds = [mechanism("mahalanobis", weight=weight) for weight in (0.2, 0.5)]
    ones = [made.claim.at(1.0, made.metric, 9) for made in kinds]
    assert (ones[0] + ones[0]).loss(1.0) == 2
    assert seen(ones[0] + ones[1]) == seen(bound_of(T2T.claim) + ones[0]) == seen(NO_BOUND)
