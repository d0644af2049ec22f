"""The Bayesian attacker on channels whose best attack is known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import binomtest

from rapt.attacks.base import Pairs, Public, Release
from rapt.attacks.bayesian import Bayesian
from rapt.attacks.inversion import NearestNeighbour
from rapt.attacks.upper_bound import by_channel, upper_bound
from rapt.attacks.victims import Victims
from rapt.privacy.categories import VERBATIM
from rapt.privacy.channel import Channel, estimate
from rapt.privacy.mechanisms import PCT2T, T2T
from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable

V = 18
FALSE_ALARM = 1e-6
NONE = Pairs([], Release([]))
Shares = NDArray[np.float64]

# P(y|w) of the first two words of the table, the only words of the victims' texts.
CHANNELS = {
    "identity": [[1.0, 0.0], [0.0, 1.0]],
    "uniform": [[0.5, 0.5], [0.5, 0.5]],
    "two words": [[0.8, 0.2], [0.4, 0.6]],
    "turned": [[0.1, 0.9], [0.8, 0.2]],
}


@pytest.fixture
def public(table: EmbeddingTable) -> Callable[[Shares], Public]:
    """Public knowledge of a channel over the first words of the table; others are verbatim."""

    def make(matrix: Shares) -> Public:
        size = len(matrix)
        counts = np.zeros((size, V), np.int64)
        counts[:, :size] = np.rint(1000 * matrix)
        groups = np.full(V, VERBATIM)
        groups[:size] = 0
        return Public(table, groups, Channel(np.arange(size), csr_array(counts)))

    return make


def draw(words: list[str], public: Public, rng: np.random.Generator) -> list[list[str]]:
    """Texts of one word each, released by the channel."""
    assert public.channel
    matrix, rows = public.channel.matrix.toarray(), public.table.counts
    at = [int(np.flatnonzero(rows([[word]]))[0]) for word in words]
    return [[public.table.words[rng.choice(V, p=matrix[row])]] for row in at]


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("prior", ["public", "release"])
def test_it_reaches_the_best_success_that_there_is(
    public: Callable[[Shares], Public], name: str, prior: Literal["public", "release"]
) -> None:
    """Σ_y max_w P(y|w)·π(w), tested exactly. The table's π of the two words is the victims'."""
    rng, share = np.random.default_rng(0), 2 / 3
    matrix, n = np.array(CHANNELS[name]), 4000
    known = public(matrix)
    words = [known.table.words[w] for w in rng.choice(2, n, p=[share, 1 - share])]
    victims = Victims([[w] for w in words], [[0]] * n, known.table.form)
    released = draw(words, known, rng)
    recovered = victims.score(
        Bayesian(type="bayesian", prior=prior, copies=1)
        .fit(known, NONE, 0)
        .words([Release(released)])
    )
    best = (matrix * [[share], [1 - share]]).max(axis=0).sum()
    right = int(recovered.ratios["accuracy"][0].sum())
    assert binomtest(right, n, min(1.0, best)).pvalue > FALSE_ALARM
    assert by_channel(known, victims.protected_words) == pytest.approx(best, abs=0.04)  # n words


@pytest.mark.parametrize(
    ("mechanism", "categories"),
    [(T2T(), None), (PCT2T(), ["noun", "verb"])],
    ids=["t2t", "pct2t"],
)
@pytest.mark.parametrize("eta", [1.0, 2.0, 4.0])
@pytest.mark.parametrize(
    ("prior", "channel", "draws"),
    [
        ("public", np.arange(V), 1000),
        ("public", np.arange(0, V, 2), 300),
        ("release", np.arange(0, V, 2), 300),
    ],
)
def test_it_is_no_weaker_than_the_nearest_neighbour(
    table: EmbeddingTable,
    prior: Literal["public", "release"],
    channel: NDArray[np.int64],
    draws: int,
    eta: float,
    mechanism: T2T,
    categories: list[str] | None,
) -> None:
    """On the mechanism's own releases, paired by word, at an error rate of 1e-6.

    Words have the table's frequencies. Also with a channel of half of the words and few draws.
    """
    privatizer = Privatizer(table=table, mechanism=mechanism, eta=eta, categories=categories)
    known = Public.of(privatizer, estimate(privatizer, channel, draws, 0))
    rng = np.random.default_rng(1)
    share = table.frequency[privatizer.candidates]
    share /= share.sum()
    rows = rng.choice(privatizer.candidates, 4000, p=share)
    words, groups = [table.words[row] for row in rows], known.groups[rows].tolist()
    victims = Victims([[w] for w in words], [[group] for group in groups], table.form)
    (flat,) = privatizer.privatize([Words(words, groups, lambda: stream(2, "victims"))])
    released = [[word] for word in flat]
    attacks = (
        Bayesian(type="bayesian", prior=prior, copies=1),
        NearestNeighbour(type="nearest-neighbour"),
    )
    bayes, nearest = (
        victims.score(how.fit(known, NONE, 0).words([Release(released)])).ratios["accuracy"][0]
        for how in attacks
    )
    better, worse = int((bayes > nearest).sum()), int((bayes < nearest).sum())
    if better + worse:
        pvalue = binomtest(better, better + worse, alternative="less").pvalue
        assert pvalue > FALSE_ALARM
    assert bayes.mean() <= upper_bound(known, victims.protected_words) + 0.05
    assert bayes.mean() > share.max() - 0.05


def test_a_word_that_nothing_leads_to_is_taken_as_it_is(
    public: Callable[[Shares], Public],
) -> None:
    known = public(np.array(CHANNELS["turned"]))
    texts = [["the", "nouna", "unseen"]]
    guessed = (
        Bayesian(type="bayesian", prior="public", copies=1)
        .fit(known, NONE, 0)
        .words([Release(texts)])
    )
    assert guessed == [["the", "nounb", "unseen"]]


@pytest.mark.parametrize(("prior", "guess"), [("public", "nounb"), ("release", "nouna")])
def test_a_word_without_a_public_count_is_taken_as_it_is(
    public: Callable[[Shares], Public], prior: Literal["public", "release"], guess: str
) -> None:
    """Otherwise Bayes' rule would replace it by nearly any other word, as it counts as rarest."""
    known = public(np.array([[0.5, 0.5], [0.0, 1.0]]))
    table = copy(known.table)
    table.frequency = np.where(np.array(table.words) == "nounb", 0, table.frequency)
    how = Bayesian(type="bayesian", prior=prior, copies=1)
    texts = [["nouna"] * 5 + ["nounb"] * 4]
    guessed = how.fit(replace(known, table=table), NONE, 0).words([Release(texts)])
    assert guessed == [["nouna"] * 5 + [guess] * 4]


def test_of_several_releases_a_word_without_a_public_count_tells_as_any_other(
    public: Callable[[Shares], Public],
) -> None:
    """0.98²·0.02 of it, the rarest of 18, is more than 0.02²·0.98 of the most frequent."""
    known = public(np.array([[0.98, 0.02], [0.02, 0.98]]))
    table = copy(known.table)
    table.frequency = np.where(np.array(table.words) == "nounb", 0, table.frequency)
    how = Bayesian(type="bayesian", prior="public", copies=3)
    copies = [Release([[word]]) for word in ("nouna", "nounb", "nounb")]
    assert how.fit(replace(known, table=table), NONE, 0).words(copies) == [["nounb"]]


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_several_releases_of_a_text_tell_more(
    public: Callable[[Shares], Public], copies: int
) -> None:
    """Σ over all outcomes y of max_w π(w)·Π P(y_i|w), tested exactly."""
    rng, n = np.random.default_rng(0), 4000
    matrix, prior = np.array(CHANNELS["two words"]), np.array([2 / 3, 1 / 3])
    known = public(matrix)
    words = [known.table.words[w] for w in rng.choice(2, n, p=prior)]
    victims = Victims([[w] for w in words], [[0]] * n, known.table.form)
    how = Bayesian(type="bayesian", prior="public", copies=copies)
    assert how.takes == copies
    recovered = victims.score(
        how.fit(known, NONE, 0).words([Release(draw(words, known, rng)) for _ in range(copies)])
    )
    best = sum(
        (prior * matrix[:, outcome].prod(axis=1)).max()
        for outcome in map(list, product((0, 1), repeat=copies))
    )
    assert binomtest(int(recovered.ratios["accuracy"][0].sum()), n, best).pvalue > FALSE_ALARM
    assert bool(how.upper_bounds(known, victims.protected_words)) == (copies == 1)


def test_copies_that_nothing_known_leads_to_are_read_one_by_one(
    public: Callable[[Shares], Public],
) -> None:
    known = public(np.eye(3))
    how = Bayesian(type="bayesian", prior="public", copies=2)
    guessed = how.fit(known, NONE, 0).words(
        [Release([["nounc", "the"]]), Release([["noune", "the"]])]
    )
    assert guessed == [["nounc", "the"]]  # "noune" has no posterior
