"""The autoencoder, where what it should learn is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from rapt.attacks.base import Pairs, Public, Release
from rapt.attacks.victims import Victims
from tests.attacks.two_words import AUTOENCODER, texts
from tests.attacks.two_words import public as public


@pytest.mark.parametrize(
    "matrix",
    [np.array([[0.8, 0.2], [0.4, 0.6]]), np.full((2, 2), 0.5)],
    ids=["two words", "uniform"],
)
def test_an_autoencoder_finds_the_mean_of_what_a_word_may_have_been(
    public: Public, matrix: np.ndarray
) -> None:
    """The least squared error is that of E[E(w)|y], which is known for each y."""
    inverter = AUTOENCODER.fit(public, texts(matrix, 0), 0)
    victims = texts(matrix, 1)
    one, other = public.table.embed(["nouna", "nounb"])
    assert inverter.vectors
    spread = ((one - other) ** 2).mean()
    expected, error = [], 0.0
    for y, chance in enumerate(matrix.mean(axis=0)):
        posterior = matrix[:, y] / matrix[:, y].sum()
        expected.append(posterior[0] * one + posterior[1] * other)
        error += chance * posterior.prod() * spread
    found = inverter.vectors(public.table.embed(["nouna", "nounb"]))
    np.testing.assert_allclose(found, expected, atol=0.15 * np.sqrt(spread))
    scored = Victims(victims.words, [[0]] * 3000, public.table.form)
    errors = scored.squared_errors(inverter.vectors, victims.released, public.table)
    assert errors.mean() == pytest.approx(error, rel=0.15)


def test_an_autoencoder_recovers_what_is_released_as_it_is(public: Public) -> None:
    own = [[word] for word in public.table.words] * 30
    inverter = AUTOENCODER.fit(public, Pairs(own, Release(own)), 0)
    assert inverter.words([Release(own[:18])]) == own[:18]
