"""The black-box attacker on channels whose best attack is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from rapt.attacks.autoencoder import Autoencoder
from rapt.attacks.base import Pairs, Public, Release
from rapt.attacks.black_box import BlackBox
from rapt.attacks.inversion_scores import Victims
from rapt.attacks.mlp_inversion import MlpInversion
from rapt.privacy.audit.cases import small_table
from rapt.privacy.categories import VERBATIM, Scheme
from rapt.text.table import EmbeddingTable

ATTACKER = MlpInversion(
    type="mlp-inversion", hidden=32, epochs=20, learning_rate=0.01, pairs=10_000
)
AUTOENCODER = Autoencoder(
    type="autoencoder", hidden=64, epochs=60, learning_rate=0.01, pairs=10_000
)


@pytest.fixture
def public(table: EmbeddingTable) -> Public:
    """Public knowledge: the table."""
    return Public(table, np.full(len(table.words), VERBATIM), None)


@pytest.fixture(scope="module")
def plane() -> Public:
    """Three words, none of them between the first two."""
    vectors = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    table = small_table(["nouna", "nounb", "verba"], vectors, np.ones(3))
    return Public(table, np.full(3, VERBATIM), None)


def texts(matrix: np.ndarray, seed: int, n: int = 3000) -> Pairs:
    """Words a and b, equally often, and their releases by the channel."""
    rng = np.random.default_rng(seed)
    words = rng.integers(2, size=n)
    released = [rng.choice(len(matrix[w]), p=matrix[w]) for w in words]
    names = ("nouna", "nounb", "verba")
    return Pairs([[names[w]] for w in words], Release([[names[y]] for y in released]))


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
    scored = Victims(victims.words, [["NOUN"]] * 3000, Scheme(None), public.table.form)
    errors = scored.squared_errors(inverter.vectors, victims.released, public.table)
    assert errors.mean() == pytest.approx(error, rel=0.15)


def test_an_autoencoder_recovers_what_is_released_as_it_is(public: Public) -> None:
    own = [[word] for word in public.table.words] * 30
    inverter = AUTOENCODER.fit(public, Pairs(own, Release(own)), 0)
    assert inverter.words([Release(own[:18])]) == own[:18]


def test_it_learns_from_as_many_words_as_it_is_given(public: Public) -> None:
    words = [["nouna"]] * 10 + [["nounb"]] * 90
    own = Pairs(words, Release(words))
    few = ATTACKER.model_copy(update={"pairs": 10})
    assert few.fit(public, own, 0).words([Release([["nouna", "nounb"]])]) == [["nouna", "nouna"]]


def test_guesses_do_not_depend_on_the_number_of_threads(public: Public) -> None:
    own = texts(np.array([[0.6, 0.4], [0.4, 0.6]]), 0, 500)

    def once() -> list[list[str]]:
        return ATTACKER.fit(public, own, 3).words([own.released])

    with threadpool_limits(2):
        two = once()
    assert once() == two


def test_it_reads_vectors_where_vectors_are_released(public: Public) -> None:
    """The released words are all the same: only the vectors distinguish originals."""
    rng = np.random.default_rng(0)
    words = [[str(word)] for word in rng.choice(["nouna", "nounb"], 2000)]
    centres = public.table.embed([text[0] for text in words])
    noise = 0.05 * rng.standard_normal(centres.shape)
    release = Release([["verba"]] * 2000, (centres + noise).astype(np.float32))
    half = Release(release.words[:1000], release.vectors[:1000])  # type: ignore[index]
    victims = Release(release.words[1000:], release.vectors[1000:])  # type: ignore[index]
    assert ATTACKER.fit(public, Pairs(words[:1000], half), 0).words([victims]) == words[1000:]
