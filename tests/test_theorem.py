"""The simulation of RAPT's Theorem VI.1: evidence/theorem.py."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import laplace

from evidence import theorem
from evidence.theorem import ETA, LABEL, PLACES, PRIOR, World
from rapt.privacy.mechanisms import T2T, Space
from tests.conftest import ROOT

WORLD = World(PLACES, theorem.t2t(PLACES, ETA), PRIOR, LABEL)
SHARES = st.floats(0, 1)


def arrays(numbers: st.SearchStrategy[float], size: int) -> st.SearchStrategy[NDArray[np.float64]]:
    return st.lists(numbers, min_size=size, max_size=size).map(np.array)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any words, frequencies and labels, and any channel that reaches each word."""
    size = draw(st.integers(2, 5))
    weights = draw(arrays(st.floats(0.01, 1), size * (size + 2))).reshape(-1, size)
    channel, (prior, steps) = weights[:size], weights[size:]
    channel /= channel.sum(axis=1, keepdims=True)
    label = draw(arrays(SHARES, size))
    return World(np.cumsum(steps), channel, prior / prior.sum(), label)


def test_fair_bits_pairwise_independent_refute_the_theorem() -> None:
    found = theorem.fair_bits()
    assert found["independent"] == {"w": True, "y": True, "both": False}
    assert found["answers"] == {"theorem": [0.5, 0.5, 0.5], "best": [0, 1, 0]}
    assert found["errors"] == {"theorem": 0.25, "best": 0}


@settings(max_examples=50)
@given(worlds(), st.data())
def test_the_integral_is_the_best_predictor_of_a_label_that_depends_on_the_word_alone(
    world: World, data: st.DataObject
) -> None:
    joint, posterior = world.joint, world.posterior(world.prior)
    least = theorem.best(joint)
    np.testing.assert_allclose(theorem.theorem(joint), least, atol=1e-9)
    np.testing.assert_allclose(posterior @ world.label, least, atol=1e-9)
    other = data.draw(arrays(SHARES, len(least)))
    share = world.prior @ world.channel
    more = theorem.error(joint, other) - theorem.error(joint, least)
    assert more == pytest.approx(share @ (other - least) ** 2, abs=1e-9)
    found = theorem.errors(world)
    assert found["bayes"] == pytest.approx(theorem.error(joint, least), abs=1e-9)
    assert min(found.values()) >= found["bayes"] - 1e-9


def test_each_way_answers_as_its_name_says() -> None:
    """A channel that tells nothing: of any release the posterior is the prior."""
    channel = np.full((3, 3), 1 / 3)
    world = World(PLACES[:3], channel, np.array([0.5, 0.1, 0.4]), np.array([1.0, 0.0, 0.5]))
    answers = {"bayes": 0.7, "ignoring": 0.7, "map": 1, "nearest to mean": 0, "uniform prior": 0.5}
    found = theorem.errors(world)
    for way, answer in answers.items():
        assert found[way] == pytest.approx(0.7 * 0.3 + (answer - 0.7) ** 2)


def test_the_law_of_t2t_is_the_mechanism_s() -> None:
    """The mechanism's release of each word, at the quantiles of the noise."""
    space = Space(PLACES[:, None].astype(np.float32), PRIOR)
    noise = laplace.ppf((np.arange(10_000) + 0.5) / 10_000)[:, None]
    sampler = T2T().sampler(space, ETA)
    for place, law in zip(PLACES, WORLD.channel, strict=True):
        released = sampler(np.full((len(noise), 1), place), noise)
        np.testing.assert_allclose(np.bincount(released, minlength=5) / 10_000, law, atol=2e-4)


def test_the_error_of_a_regression_is_the_mean_over_all_its_rows() -> None:
    channel, prior = np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0.6, 0.4])
    joint = World(PLACES[:2], channel, prior, LABEL[:2]).joint
    seen = joint.sum(axis=0)
    mean = 0.0
    for rows in product(product((0, 1), (0, 1)), repeat=3):
        labels: dict[int, list[int]] = {0: [], 1: []}
        for v, y in rows:
            labels[v].append(y)
        answers = np.array([np.mean(labels[v] or [0.5]) for v in (0, 1)])
        mean += np.prod([seen[row] for row in rows]) * theorem.error(joint, answers)
    assert theorem.regression(joint, 3) == pytest.approx(mean)


def test_a_predictor_by_place_names_what_it_was_trained_on_and_nothing_else() -> None:
    found = theorem.plain(WORLD)
    assert found["ignoring"] == {
        "trained": 1,
        "loss": 0,
        "others": pytest.approx((5**4 - 1) / (5**5 - 1)),
    }
    # Under a uniform prior the likeliest word is the released one: how often is a word kept?
    kept = (3 * (1 - np.exp(-1)) + 2 * (1 - np.exp(-1) / 2)) / 5
    reading = found["posterior"]
    assert reading["trained"] == pytest.approx(kept) and reading["others"] == pytest.approx(kept)
    posterior = WORLD.channel / WORLD.channel.sum(axis=0)
    assert reading["loss"] == pytest.approx(-(WORLD.channel * np.log(posterior)).sum() / 5)


def test_the_file_is_what_the_module_computes() -> None:
    def rounded(text: str) -> Any:
        return json.loads(text, parse_float=lambda number: round(float(number), 9))

    written = (ROOT / "evidence/theorem.json").read_text(encoding="utf-8")
    assert rounded(written) == rounded(json.dumps(theorem.results()))
