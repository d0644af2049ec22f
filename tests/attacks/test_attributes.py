"""Attributes read off words, vectors and hidden states, where the best success is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.attributes import mean_vectors
from rapt.attacks.base import Inference, Release
from rapt.text.table import EmbeddingTable
from tests.attacks.conftest import FALSE_ALARM, Known, accuracy, made
from tests.attacks.test_attacks import Make

AUTHORSHIP = made("authorship")


def is_chance(share: float, texts: int = 500) -> bool:
    return bool(binomtest(round(texts * share), texts, 0.5).pvalue > FALSE_ALARM)


def centres(n: int, distance: float, seed: int, dimension: int = 8) -> Known:
    """Texts of one word, whose released vectors lie around one of two centres.

    These lie at ±(1, −1, 1, …): a layer norm, which takes mean and length away, leaves the sign.
    """
    rng = np.random.default_rng(seed)
    who = rng.integers(2, size=n)
    centre = distance * np.resize([1, -1], dimension) / np.sqrt(dimension)
    vectors = rng.standard_normal((n, dimension)) + (2 * who[:, None] - 1) * centre
    return Known.of([["nouna"]] * n, who, vectors.astype(np.float32))


@pytest.mark.parametrize(
    ("name", "dimension"), [("attribute-mlp", 8), ("attribute-hidden", 32)], ids=["mean", "hidden"]
)
def test_reaches_the_optimum_of_two_known_authors(
    attack: Make, table: EmbeddingTable, name: str, dimension: int
) -> None:
    """Two Gaussians at distance 2·1.5: the best rule is right with Φ(1.5) = 0.933.

    Training costs less than 0.03; by chance as much is added, 5.3 standard deviations of 2,000
    texts, at less than 1e-6.
    """
    narrow = {"hidden": 8, "epochs": 30, "learning_rate": 0.003} if dimension == 32 else {}
    own, victims = (centres(2000, 1.5, seed, dimension) for seed in (0, 1))
    found = accuracy(attack(name, **narrow), table, own, victims)
    assert found == pytest.approx(0.933, abs=0.03)


def test_mean_vectors(table: EmbeddingTable) -> None:
    means = mean_vectors(table, Release([["nouna", "verba"], []]))
    np.testing.assert_allclose(means[0], table.embed(["nouna", "verba"]).mean(0))
    assert not means[1].any()
    own = np.arange(24, dtype=np.float32).reshape(3, 8)
    means = mean_vectors(table, Release([["nouna", "verba"], ["the"]], own))
    np.testing.assert_allclose(means, [own[:2].mean(0), own[2]])


def features(seed: int) -> np.ndarray:
    """Features far from 0, one of them in other units."""
    drawn = np.random.default_rng(seed).standard_normal((400, 3))
    return (drawn * [1, 1000, 1] + 50).astype(np.float32)


def test_a_perceptron_learns_in_the_units_of_features_and_targets() -> None:
    how, own, others = made("attribute-mlp", hidden=16, epochs=60), features(0), features(1)
    how = how.model_copy(update={"learning_rate": 0.01})
    known = {"size": ["large" if row[1] > 50 else "small" for row in own]}
    found = how.classified(own, known, others, seed=0)
    right = np.array(found["size"]) == np.where(others[:, 1] > 50, "large", "small")
    assert right.mean() > 0.95
    once, again = (how.regressor(own, 10 * own[:, :2], seed=0)(others) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert once.dtype == np.float32
    error = np.square(once - 10 * others[:, :2]).mean(axis=0)
    assert (error < 0.05 * (10 * others[:, :2]).var(axis=0)).all()


def test_authorship_reads_the_order_of_words(table: EmbeddingTable) -> None:
    own = Known(Release([["nouna", "nounb"], ["nounb", "nouna"]] * 20), ["a", "b"] * 20)
    assert accuracy(AUTHORSHIP, table, own, own) == 1
    assert accuracy(made("authorship", longest=1), table, own, own) == 0.5


def test_characters_tell_what_no_word_does(table: EmbeddingTable) -> None:
    """No word comes twice, and each author's words end alike: chance without characters."""
    who = np.random.default_rng(0).integers(2, size=1000)
    words = [[f"{number:04}{('ise', 'ize')[w]}"] for number, w in enumerate(who)]
    own, victims = (Known.of(words[i::2], who[i::2]) for i in (0, 1))
    assert is_chance(accuracy(AUTHORSHIP, table, own, victims))
    assert accuracy(made("authorship", characters=3), table, own, victims) == 1


def orders(n: int, seed: int, told: bool) -> Known:
    """Texts of five words, where `good` comes before `bad` or after it, each between two others.

    The order tells the author; untold, it is drawn anew.
    """
    rng = np.random.default_rng(seed)
    who, others = rng.integers(2, size=n), rng.choice(["film", "plot", "so"], (n, 3))
    order = who if told else rng.integers(2, size=n)
    words = ("good", "bad")
    texts = [[a, words[k], b, words[1 - k], c] for k, (a, b, c) in zip(order, others, strict=True)]
    return Known.of(texts, who)


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False], ids=["order alone tells", "nothing tells"])
def test_an_encoder_reads_the_order_of_words_and_nothing_where_nothing_is(
    attack: Make, table: EmbeddingTable, told: bool
) -> None:
    """Words and pairs in a row are equally frequent for both authors. Chance is tested exactly."""
    own, victims = orders(256, 0, told), orders(500, 1, told)
    assert is_chance(accuracy(AUTHORSHIP, table, own, victims))
    found = accuracy(attack("attribute-encoder"), table, own, victims)
    assert found > 0.99 if told else is_chance(found)


@pytest.mark.slow
def test_fresh_noise_is_another_release_in_each_epoch(attack: Make, table: EmbeddingTable) -> None:
    """The own release tells nothing; those of its texts that the attacker makes tell all."""
    told, blank, asked = orders(256, 0, told=True), Release([["film"]] * 256), []
    stale: Inference = attack("attribute-encoder")
    fresh = attack("attribute-encoder", fresh_noise=True)

    def anew(seed: int, epoch: int) -> Release:
        asked.append((seed, epoch))
        return told.release

    own, victims = Known(replace(blank, anew=anew), told.values), orders(500, 1, told=True)
    assert is_chance(accuracy(stale, table, own, victims)) and not asked
    assert accuracy(fresh, table, own, victims) > 0.99
    assert asked == [(0, epoch) for epoch in range(1, fresh.epochs)]
