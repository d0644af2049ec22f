"""The black-box attacker on channels whose best attack is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from rapt.attacks.base import Public
from rapt.attacks.trained_inversion import BlackBox
from rapt.audit.cases import small_table
from rapt.privacy.categories import VERBATIM
from tests.attacks.two_words import ATTACKER, AUTOENCODER, texts


@pytest.fixture(scope="module")
def plane() -> Public:
    """Three words, none of them between the first two."""
    vectors = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    table = small_table(["nouna", "nounb", "verba"], vectors, np.ones(3))
    return Public(table, np.full(3, VERBATIM), None)


@pytest.mark.parametrize("how", [ATTACKER, AUTOENCODER], ids=["mlp-inversion", "autoencoder"])
@pytest.mark.parametrize(
    ("matrix", "best"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], 1.0),
        ([[0.5, 0.5], [0.5, 0.5]], 0.5),
        ([[0.8, 0.2], [0.4, 0.6]], 0.7),
        ([[0.1, 0.9], [0.8, 0.2]], 0.85),
        ([[0.0, 0.2, 0.8], [0.9, 0.1, 0.0]], 0.95),
    ],
    ids=["identity", "uniform", "two words", "turned", "another word"],
)
def test_it_reaches_the_best_success_that_there_is(
    plane: Public, matrix: list[list[float]], best: float, how: BlackBox
) -> None:
    """Within 5 standard deviations of 3,000 words, that is at 1e-6.

    An autoencoder learns the mean of two words, which is nearest to the more likely one.
    """
    victims = texts(np.array(matrix), 1)
    invert = how.fit(plane, texts(np.array(matrix), 0), 0)
    right = np.mean(
        [g == w for g, w in zip(invert.words([victims.released]), victims.words, strict=True)]
    )
    assert right == pytest.approx(best, abs=5 * np.sqrt(best * (1 - best) / 3000) + 1e-9)
