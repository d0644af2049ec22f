"""The bounds where the vulnerability is known."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma

from rapt.attacks.base import Public
from rapt.attacks.upper_bound import by_channel, by_noise, upper_bound
from rapt.privacy.channel import estimate
from rapt.privacy.mechanisms import PCT2T, T2T
from rapt.privacy.mechanisms.noise import Mahalanobis, Vickrey
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from tests.attacks.conftest import CHANNELS, MakePublic


def test_what_the_channel_does_not_know_counts_as_recovered(public: MakePublic) -> None:
    known = public(np.array(CHANNELS["uniform"]))
    # The third has no channel, the fourth is tagged as of another group, the last is no word.
    words = {
        ("nouna", 0): 60,
        ("nounb", 0): 20,
        ("nounc", 0): 6,
        ("nouna", 1): 4,
        ("unseen", 0): 10,
    }
    assert upper_bound(known, words) == by_channel(known, words) == pytest.approx(0.8)
    assert upper_bound(known, {}) == 0


@pytest.mark.parametrize("eta", [0.5, 2.0, 8.0])
def test_of_two_words_it_is_the_chance_that_noise_stays_on_its_side(
    table: EmbeddingTable, eta: float
) -> None:
    """P(z·u < D/2) for noise of radius Gamma(d) and uniform direction: no slack but the limit's."""
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=eta)
    one, other = table.embed(["nouna", "nounb"])
    d, half = table.dimension, eta * np.linalg.norm(one - other) / 2

    def density(t: float) -> float:
        return float((1 - t * t) ** ((d - 3) / 2))

    whole, _ = quad(density, -1, 1)
    beyond, _ = quad(lambda t: density(t) / whole * gamma.sf(half / t, d), 0, 1)
    found = by_noise(privatizer, {("nouna", 0): 5, ("nounb", 0): 5})
    assert 1 - beyond <= found <= 1 - beyond + 0.02


@pytest.mark.parametrize(
    ("mechanism", "categories"),
    [(T2T(), None), (Mahalanobis(), None), (Vickrey(), None), (PCT2T(), ["noun", "verb"])],
    ids=lambda it: getattr(it, "name", ""),
)
@pytest.mark.parametrize("eta", [1.0, 3.0])
def test_no_reader_of_the_released_word_recovers_more(
    table: EmbeddingTable, mechanism: T2T, categories: list[str] | None, eta: float
) -> None:
    """With so many draws of so few words the channel's bound is nearly the vulnerability."""
    privatizer = Privatizer(table=table, mechanism=mechanism, eta=eta, categories=categories)
    known = Public.of(privatizer, estimate(privatizer, range(len(table.words)), 500, 0))
    rows = privatizer.candidates
    words = {
        (table.words[row], int(known.groups[row])): 1 + 1000 // (1 + i)
        for i, row in enumerate(rows)
    }
    exact = by_channel(known, words)
    assert exact - 0.02 < by_noise(privatizer, words) < 1
    assert upper_bound(known, words) <= exact


def test_words_that_the_table_does_not_know_are_covered(table: EmbeddingTable) -> None:
    """Unknown words of PCT2T are replaced among the whole table: a group after those of a tag."""
    privatizer = Privatizer(table=table, mechanism=PCT2T(), eta=1.0, categories=["noun"])
    known = Public.of(privatizer, estimate(privatizer, [0], 10, 0))
    text = privatizer.text(["unknown", "nouna", "nounb"], ["X", "NOUN", "NOUN"])
    words = {(word, group): 100 for word, group in zip(text.words, text.groups, strict=True)}
    assert by_channel(known, words) == 1
    assert upper_bound(known, words) < 0.95
