"""Attribute inference where the best success is known in closed form, or nothing is to be found."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from rapt.attacks.attribute_hidden import AttributeHidden
from rapt.attacks.attribute_mlp import AttributeMlp, mean_vectors
from rapt.attacks.authorship import Authorship
from rapt.attacks.base import Inference, Release
from rapt.attacks.text_features import hidden_states
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.attacks.test_bayesian import FALSE_ALARM
from tests.tuning.conftest import backbone as backbone


class Known(NamedTuple):
    """Texts and the value of each."""

    release: Release
    values: list[str]


MLP = AttributeMlp(type="attribute-mlp", hidden=64, epochs=30, learning_rate=0.003)
AUTHORSHIP = Authorship(type="authorship", longest=2, strength=10.0)


@pytest.fixture
def hidden(backbone: Path) -> AttributeHidden:
    return AttributeHidden(
        type="attribute-hidden",
        model=str(backbone),
        sha256=None,
        max_tokens=16,
        hidden=32,
        epochs=60,
        learning_rate=0.01,
    )


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


def accuracy(how: Inference, table: EmbeddingTable, own: Known, victims: Known) -> float:
    known = {"author": own.values}
    guesses = how.guesses(table, own.release, known, victims.release, 0)["author"]
    return float(np.mean(np.array(guesses) == victims.values))


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


def writers(n: int, likes: float, words: tuple[str, str], seed: int) -> Known:
    """Texts of two words, each with such a chance the one of the two that its author likes."""
    rng = np.random.default_rng(seed)
    who = rng.integers(2, size=n)
    drawn = np.where(rng.random((n, 2)) < likes, who[:, None], 1 - who[:, None])
    return Known(
        Release([[words[w] for w in text] for text in drawn]),
        [f"author-{w}" for w in who],
    )


@pytest.mark.parametrize("likes", [1.0, 0.8, 0.5], ids=["identity", "two words", "uniform"])
@pytest.mark.parametrize("kind", [Authorship, AttributeHidden])
def test_it_reaches_the_optimum_of_two_known_styles(
    table: EmbeddingTable, hidden: AttributeHidden, kind: type[Inference], likes: float
) -> None:
    """Two equal words tell with p² / (p² + (1 − p)²), two different ones nothing: p in all.

    Tested exactly. Where authors like both words alike, no text says whose it is.
    """
    how = hidden if kind is AttributeHidden else AUTHORSHIP
    own, victims = (writers(2000, likes, ("good", "bad"), seed) for seed in (0, 1))
    found = accuracy(how, table, own, victims)
    assert binomtest(round(2000 * found), 2000, likes).pvalue > FALSE_ALARM


def test_authorship_reads_the_order_of_words(table: EmbeddingTable) -> None:
    own = Known(Release([["nouna", "nounb"], ["nounb", "nouna"]] * 20), ["a", "b"] * 20)
    assert accuracy(AUTHORSHIP, table, own, own) == 1
    words_alone = AUTHORSHIP.model_copy(update={"longest": 1})
    assert accuracy(words_alone, table, own, own) == 0.5


def test_hidden_states_are_those_of_each_text_alone(backbone: Path) -> None:
    texts = [["good", "film"], ["so", "unlikely", "plot"], ["bad"]]
    together = hidden_states(backbone, Release(texts), 16)
    for state, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(
            state, hidden_states(backbone, Release([text]), 16)[0], atol=1e-5
        )
    assert together.shape == (3, 32)
    assert not np.allclose(together[0], together[2])


def test_hidden_states_take_released_vectors_for_words(backbone: Path) -> None:
    rng = np.random.default_rng(0)
    words = [["good", "film"]]
    one, other = (rng.standard_normal((2, 32)).astype(np.float32) for _ in range(2))
    states = [hidden_states(backbone, Release(words, vectors), 16) for vectors in (one, one, other)]
    np.testing.assert_array_equal(states[0], states[1])
    assert not np.allclose(states[0], states[2])
    with pytest.raises(RaptError, match="got dimension 8, expected 32"):
        hidden_states(backbone, Release(words, one[:, :8]), 16)


def test_an_attribute_is_read_off_hidden_states(
    table: EmbeddingTable, hidden: AttributeHidden
) -> None:
    rng = np.random.default_rng(0)
    who = rng.integers(2, size=200)
    texts = [[("good", "bad")[w], *rng.choice(["film", "plot", "so"], 3)] for w in who]
    known = Known(Release(texts), [f"author-{w}" for w in who])
    half = Known(Release(texts[:100]), known.values[:100])
    rest = Known(Release(texts[100:]), known.values[100:])
    assert accuracy(hidden, table, half, rest) > 0.9


def test_mean_vectors(table: EmbeddingTable) -> None:
    means = mean_vectors(table, Release([["nouna", "verba"], []]))
    np.testing.assert_allclose(means[0], table.embed(["nouna", "verba"]).mean(0))
    assert not means[1].any()
    own = np.arange(24, dtype=np.float32).reshape(3, 8)
    means = mean_vectors(table, Release([["nouna", "verba"], ["the"]], own))
    np.testing.assert_allclose(means, [own[:2].mean(0), own[2]])
