"""Inference by mean vectors, where the best success is known or nothing is to be found."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from rapt.attacks.attributes import AttributeHidden, AttributeMlp, mean_vectors
from rapt.attacks.base import Release
from rapt.text.table import EmbeddingTable
from tests.attacks.authors import Known, accuracy
from tests.attacks.authors import hidden as hidden
from tests.tuning.conftest import backbone as backbone

MLP = AttributeMlp(type="attribute-mlp", hidden=64, epochs=30, learning_rate=0.003)


def authors(n: int, distance: float, seed: int, dimension: int = 8) -> Known:
    """Texts of one word, whose released vectors lie around one of two centres.

    These lie at ±(1, −1, 1, …): a layer norm, which takes mean and length away, leaves the sign.
    """
    rng = np.random.default_rng(seed)
    who = rng.integers(2, size=n)
    centre = distance * np.resize([1, -1], dimension) / np.sqrt(dimension)
    features = rng.standard_normal((n, dimension)) + (2 * who[:, None] - 1) * centre
    release = Release([["nouna"]] * n, features.astype(np.float32))
    return Known(release, [f"author-{w}" for w in who])


@pytest.mark.parametrize("dimension", [8, 32], ids=["mean vectors", "hidden states"])
def test_reaches_the_optimum_of_two_known_authors(
    table: EmbeddingTable, hidden: AttributeHidden, dimension: int
) -> None:
    """Two Gaussians at distance 2·1.5: the best rule is right with Φ(1.5) = 0.933.

    Training costs less than 0.03; by chance as much is added, 5.3 standard deviations of 2,000
    texts, at less than 1e-6.
    """
    narrow = hidden.model_copy(update={"hidden": 8, "epochs": 30, "learning_rate": 0.003})
    own, victims = (authors(2000, 1.5, seed, dimension) for seed in (0, 1))
    found = accuracy(MLP if dimension == 8 else narrow, table, own, victims)
    assert found == pytest.approx(0.933, abs=0.03)


def test_learns_nothing_where_there_is_nothing(table: EmbeddingTable) -> None:
    found = accuracy(MLP, table, authors(1000, 0, 0), authors(2000, 0, 1))
    assert found == pytest.approx(0.5, abs=0.06)


def test_figures_do_not_depend_on_the_number_of_threads(table: EmbeddingTable) -> None:
    def once() -> float:
        return accuracy(MLP, table, authors(500, 0.5, 0), authors(500, 0.5, 1))

    with threadpool_limits(2):
        two = once()
    with threadpool_limits(1):
        assert once() == two


def test_mean_vectors(table: EmbeddingTable) -> None:
    means = mean_vectors(table, Release([["nouna", "verba"], []]))
    np.testing.assert_allclose(means[0], table.embed(["nouna", "verba"]).mean(0))
    assert not means[1].any()
    own = np.arange(24, dtype=np.float32).reshape(3, 8)
    means = mean_vectors(table, Release([["nouna", "verba"], ["the"]], own))
    np.testing.assert_allclose(means, [own[:2].mean(0), own[2]])
