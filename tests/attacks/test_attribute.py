import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from rapt.attacks.attribute import AttributeMlp, majority, mean_vectors
from rapt.text.table import EmbeddingTable

ATTACKER = AttributeMlp(type="attribute-mlp", hidden=64, epochs=30, learning_rate=0.003)

Authors = tuple[np.ndarray, list[str]]


def authors(n: int, distance: float, seed: int) -> Authors:
    rng = np.random.default_rng(seed)
    who = rng.integers(2, size=n)
    features = rng.standard_normal((n, 8)) + distance * (2 * who[:, None] - 1) / np.sqrt(8)
    return features.astype(np.float32), [f"author-{w}" for w in who]


def accuracy(own: Authors, victims: Authors, seed: int) -> float:
    guesses = ATTACKER.guesses(own, victims[0], seed)
    return float(np.mean(np.array(guesses) == victims[1]))


def test_reaches_the_optimum_of_two_known_authors() -> None:
    """Two Gaussians at distance 2·1.5: the best rule is right with Φ(1.5) = 0.933."""
    found = accuracy(authors(2000, 1.5, 0), authors(2000, 1.5, 1), 0)
    assert found == pytest.approx(0.933, abs=0.03)


def test_learns_nothing_where_there_is_nothing() -> None:
    assert accuracy(authors(1000, 0, 0), authors(2000, 0, 1), 0) == pytest.approx(0.5, abs=0.06)


def test_figures_do_not_depend_on_the_number_of_threads() -> None:
    def once() -> float:
        return accuracy(authors(500, 0.5, 0), authors(500, 0.5, 1), 3)

    with threadpool_limits(2):
        two = once()
    with threadpool_limits(1):
        assert once() == two


def test_mean_vectors_and_majority(table: EmbeddingTable) -> None:
    means = mean_vectors(table, [["nouna", "verba"], []])
    np.testing.assert_allclose(means[0], table.embed(["nouna", "verba"]).mean(0))
    assert not means[1].any()
    assert majority(["a", "b", "a"]) == 2 / 3
