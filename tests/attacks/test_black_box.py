"""The black-box attacker on channels whose best attack is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Pairs, Public
from rapt.attacks.black_box import MlpInversion
from rapt.privacy.categories import VERBATIM
from rapt.text.table import EmbeddingTable

ATTACKER = MlpInversion(
    type="mlp-inversion", hidden=32, epochs=20, learning_rate=0.01, pairs=10_000
)


@pytest.fixture
def public(table: EmbeddingTable) -> Public:
    """What is known: the table."""
    return Public(table, np.full(len(table.words), VERBATIM), None)


def texts(matrix: np.ndarray, seed: int, n: int = 3000) -> Pairs:
    """Words a and b, as often, and what the channel makes of them."""
    rng = np.random.default_rng(seed)
    words = rng.integers(2, size=n)
    released = [rng.choice(len(matrix[w]), p=matrix[w]) for w in words]
    names = ("nouna", "nounb", "verba")
    return Pairs([[names[w]] for w in words], [[names[y]] for y in released])


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
    public: Public, matrix: list[list[float]], best: float
) -> None:
    """Within 5 standard deviations of 3,000 words, that is at 1e-6."""
    victims = texts(np.array(matrix), 1)
    invert = ATTACKER.fit(public, texts(np.array(matrix), 0), 0)
    right = np.mean(
        [g == w for g, w in zip(invert([victims.released]), victims.words, strict=True)]
    )
    assert right == pytest.approx(best, abs=5 * np.sqrt(best * (1 - best) / 3000) + 1e-9)


def test_it_learns_from_as_many_words_as_it_is_given(public: Public) -> None:
    own = Pairs([["nouna"]] * 10 + [["nounb"]] * 90, [["nouna"]] * 10 + [["nounb"]] * 90)
    few = ATTACKER.model_copy(update={"pairs": 10})
    assert few.fit(public, own, 0)([[["nouna", "nounb"]]]) == [["nouna", "nouna"]]


def test_guesses_do_not_depend_on_the_number_of_threads(public: Public) -> None:
    own = texts(np.array([[0.6, 0.4], [0.4, 0.6]]), 0, 500)

    def once() -> list[list[str]]:
        return ATTACKER.fit(public, own, 3)([own.released])

    with threadpool_limits(2):
        two = once()
    assert once() == two
