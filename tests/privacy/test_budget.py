import json
from typing import Any

import numpy as np
import pytest

from rapt.privacy.budget import QUANTILES, budget, distances
from rapt.privacy.mechanisms import T2T, Mechanism, Space, mechanism
from tests.privacy.mechanisms.conftest import space_of

SPACE = space_of(np.random.default_rng(0).standard_normal((200, 5)))


def budget_of(made: Mechanism, eta: float, words: int) -> dict[str, Any]:
    bound = made.claim.at(eta, made.metric, len(SPACE.vectors))
    return budget(made.claim.kind, bound, eta, words, distances(made, [SPACE]))


def test_losses_add_up_over_words() -> None:
    one, many = (budget_of(T2T(), 2.0, words)["loss"] for words in (1, 12))
    for name in QUANTILES:
        assert many[name]["at_most"] == pytest.approx(12 * one[name]["at_most"])
    assert budget_of(mechanism("santext"), 2.0, 12)["delta"] == 12 * 200 * 2.0**-51


def test_distances_are_those_of_the_table() -> None:
    found = distances(T2T(), [SPACE])
    pairs = np.linalg.norm(SPACE.vectors[:, None] - SPACE.vectors, axis=2)
    off = pairs[~np.eye(200, dtype=bool)].reshape(200, 199)
    np.testing.assert_allclose(
        [found[name] for name in QUANTILES], np.quantile(off, (0.05, 0.5, 0.95)), rtol=0.03
    )
    assert found["its nearest word"] == pytest.approx(np.median(off.min(axis=1)), rel=0.01)


def test_its_json_is_never_an_epsilon() -> None:
    content = budget_of(T2T(), 75.0, 12)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["kind"] == "d_X-privacy"
    assert content["loss"]["its nearest word"]["at_most"] == pytest.approx(
        900 * content["loss"]["its nearest word"]["distance"]
    )


def test_no_bound_is_said_so() -> None:
    made = mechanism("custext")
    content = budget_of(made, 3.0, 2)
    assert content["loss"]["a random word (farthest 5 %)"]["at_most"] is None
    nothing = budget_of(made, 3.0, 0)["loss"]
    assert nothing["a random word (farthest 5 %)"]["at_most"] == 0


def test_the_metric_is_the_mechanisms() -> None:
    wide = Space(SPACE.vectors * np.float32([9, 1, 1, 1, 1]), SPACE.frequency)
    euclid, mahalanobis = (distances(mechanism(n), [wide]) for n in ("t2t", "mahalanobis"))
    median = "a random word (median)"
    assert mahalanobis[median] != pytest.approx(euclid[median], rel=0.05)


def test_words_are_compared_within_their_group() -> None:
    """Beside each word of one group stands a word of the other, which no bound speaks of."""
    near = Space(SPACE.vectors + np.float32(1e-3), SPACE.frequency)
    assert distances(T2T(), [SPACE, near])["its nearest word"] > 0.3
