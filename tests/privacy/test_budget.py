import json

import numpy as np
import pytest

from rapt.privacy.budget import QUANTILES, budget, distances, text_loss
from rapt.privacy.mechanisms import T2T, Space, mechanism
from tests.privacy.mechanisms.conftest import space_of

SPACE = space_of(np.random.default_rng(0).standard_normal((200, 5)))


def test_losses_add_up_over_words() -> None:
    assert text_loss(T2T(), 2.0, 12, 0.5) == 12.0


def test_distances_are_those_of_the_table() -> None:
    found = distances(T2T(), [SPACE])
    pairs = np.linalg.norm(SPACE.vectors[:, None] - SPACE.vectors, axis=2)
    off = pairs[~np.eye(200, dtype=bool)].reshape(200, 199)
    np.testing.assert_allclose(
        [found[name] for name in QUANTILES], np.quantile(off, (0.05, 0.5, 0.95)), rtol=0.03
    )
    assert found["its nearest word"] == pytest.approx(np.median(off.min(axis=1)), rel=0.01)


def test_its_json_is_never_an_epsilon() -> None:
    content = budget(T2T(), 75.0, 12, distances(T2T(), [SPACE]))
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["kind"] == "d_X-privacy"
    assert content["loss"]["its nearest word"]["at_most"] == pytest.approx(
        900 * content["loss"]["its nearest word"]["distance"]
    )


def test_no_bound_is_said_so() -> None:
    made = mechanism("custext")
    content = budget(made, 3.0, 2, distances(made, [SPACE]))
    assert content["loss"]["a random word (farthest 5 %)"]["at_most"] is None
    assert text_loss(made, 3.0, 0, np.inf) == 0


def test_the_metric_is_the_mechanisms() -> None:
    wide = Space(SPACE.vectors * np.float32([9, 1, 1, 1, 1]), SPACE.frequency)
    euclid, mahalanobis = (distances(mechanism(n), [wide]) for n in ("t2t", "mahalanobis"))
    median = "a random word (median)"
    assert mahalanobis[median] != pytest.approx(euclid[median], rel=0.05)


def test_words_are_compared_within_their_group() -> None:
    """Beside each word of one group stands a word of the other, which no bound speaks of."""
    near = Space(SPACE.vectors + np.float32(1e-3), SPACE.frequency)
    assert distances(T2T(), [SPACE, near])["its nearest word"] > 0.3
