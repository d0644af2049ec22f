"""The Bayesian attackers on channels and chains whose best attack is known in closed form."""

from copy import copy
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from rapt.attacks.base import Public, Release
from rapt.attacks.upper_bound import by_channel, upper_bound
from rapt.attacks.victims import Victims
from rapt.privacy.base import PreparedText
from rapt.privacy.channel import estimate
from rapt.privacy.mechanisms import PCT2T, T2T
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from tests.attacks.conftest import (
    CHANNELS,
    FALSE_ALARM,
    NONE,
    PRIOR,
    MakePublic,
    V,
    drawn,
    made,
    right,
)

Prior = Literal["public", "release"]


def guesses(how: str, known: Public, *copies: list[list[str]], **settings: object) -> list:
    fitted = made(how, **settings).fit(known, NONE, 0)
    return fitted.words([Release(texts) for texts in copies])


@pytest.mark.parametrize(
    ("mechanism", "categories"), [(T2T(), None), (PCT2T(), ["noun", "verb"])], ids=["t2t", "pct2t"]
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
    prior: Prior,
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
    share = table.frequency[privatizer.candidates]
    share /= share.sum()
    rows = np.random.default_rng(1).choice(privatizer.candidates, 4000, p=share)
    words, groups = [table.words[row] for row in rows], known.groups[rows].tolist()
    victims = Victims([[w] for w in words], [[group] for group in groups], table.form)
    (flat,) = privatizer.privatize([PreparedText(words, groups, lambda: stream(2, "victims"))])
    released = [[word] for word in flat]
    bayes, nearest = (
        victims.score(guesses(how, known, released, **settings)).ratios["accuracy"][0]
        for how, settings in (("bayesian", {"prior": prior}), ("nearest-neighbour", {}))
    )
    better, worse = int((bayes > nearest).sum()), int((bayes < nearest).sum())
    if better + worse:
        pvalue = binomtest(better, better + worse, alternative="less").pvalue
        assert pvalue > FALSE_ALARM
    assert bayes.mean() <= upper_bound(known, victims.protected_words) + 0.05
    assert bayes.mean() > share.max() - 0.05


def test_a_word_that_nothing_leads_to_is_taken_as_it_is(public: MakePublic) -> None:
    known = public(np.array(CHANNELS["turned"]))
    found = guesses("bayesian", known, [["the", "nouna", "unseen"]], prior="public")
    assert found == [["the", "nounb", "unseen"]]


def rare(known: Public) -> Public:
    """The same, without a public count of nounb."""
    table = copy(known.table)
    table.frequency = np.where(np.array(table.words) == "nounb", 0, table.frequency)
    return replace(known, table=table)


@pytest.mark.parametrize(("prior", "guess"), [("public", "nounb"), ("release", "nouna")])
def test_a_word_without_a_public_count_is_taken_as_it_is(
    public: MakePublic, prior: Prior, guess: str
) -> None:
    """Otherwise Bayes' rule would replace it by nearly any other word, as it counts as rarest."""
    known = rare(public(np.array([[0.5, 0.5], [0.0, 1.0]])))
    found = guesses("bayesian", known, [["nouna"] * 5 + ["nounb"] * 4], prior=prior)
    assert found == [["nouna"] * 5 + [guess] * 4]


def test_of_several_releases_a_word_without_a_public_count_tells_as_any_other(
    public: MakePublic,
) -> None:
    """0.98²·0.02 of it, the rarest of 18, is more than 0.02²·0.98 of the most frequent."""
    known = rare(public(np.array([[0.98, 0.02], [0.02, 0.98]])))
    copies = ([[word]] for word in ("nouna", "nounb", "nounb"))
    assert guesses("bayesian", known, *copies, prior="public", copies=3) == [["nounb"]]


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_several_releases_of_a_text_tell_more(public: MakePublic, copies: int) -> None:
    """Σ over all outcomes y of max_w π(w)·Π P(y_i|w), tested exactly."""
    matrix, n = np.array(CHANNELS["two words"]), 4000
    known = public(matrix)
    words = drawn(known, n, 0)
    how = made("bayesian", prior="public", copies=copies)
    best = sum(
        (PRIOR * matrix[:, outcome].prod(axis=1)).max()
        for outcome in map(list, product((0, 1), repeat=copies))
    )
    assert binomtest(right(how, known, words), n, best).pvalue > FALSE_ALARM
    victims = Victims([[w] for w in words], [[0]] * n, known.table.form).protected_words
    assert bool(how.upper_bounds(known, victims)) == (copies == 1)
    one = (PRIOR[:, None] * matrix).max(axis=0).sum()
    assert by_channel(known, victims) == pytest.approx(one, abs=0.04)  # of n words


def test_copies_that_nothing_known_leads_to_are_read_one_by_one(public: MakePublic) -> None:
    copies = [["nounc", "the"]], [["noune", "the"]]  # "noune" has no posterior
    found = guesses("bayesian", public(np.eye(3)), *copies, prior="public", copies=2)
    assert found == [["nounc", "the"]]


@pytest.mark.parametrize("copies", [1, 2])
def test_in_context_it_reaches_the_best_success_that_there_is(
    public: MakePublic, copies: int
) -> None:
    """Texts of three words of a Markov chain; at each place Σ_y max_w P(w, y), tested exactly."""
    rng, n, matrix = np.random.default_rng(0), 3000, np.array(CHANNELS["two words"])
    start, follow = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.3, 0.7]])

    def texts(n: int) -> NDArray[np.int64]:
        found = rng.choice(2, (n, 3), p=start)
        for at in (1, 2):
            found[:, at] = rng.random(n) < follow[found[:, at - 1], 1]
        return found

    known = public(matrix)
    names = np.array(known.table.words)
    known = replace(
        known, texts=[PreparedText(names[text].tolist(), [0] * 3) for text in texts(5000)]
    )
    truth = texts(n)
    seen = [np.where(rng.random((n, 3)) < matrix[truth, 1], 1, 0) for _ in range(copies)]
    released = [names[copy].tolist() for copy in seen]
    guessed = guesses("bayesian-in-context", known, *released, copies=copies)
    hits = (np.array(guessed) == names[truth]).sum(axis=0)
    best = np.zeros(3)
    sequences = np.array(list(product((0, 1), repeat=3)))
    chances = start[sequences[:, 0]] * follow[sequences[:, :-1], sequences[:, 1:]].prod(axis=1)
    for outcome in product(sequences, repeat=copies):
        joint = chances * np.prod([matrix[sequences, one].prod(axis=1) for one in outcome], axis=0)
        best += [max(joint[sequences[:, at] == w].sum() for w in (0, 1)) for at in range(3)]
    for at in range(3):
        assert binomtest(int(hits[at]), n, best[at]).pvalue > FALSE_ALARM
    assert not made("bayesian-in-context", copies=copies).upper_bounds(known, {})


@pytest.mark.parametrize("copies", [1, 2])
def test_without_public_text_context_tells_nothing(public: MakePublic, copies: int) -> None:
    """A place where one copy shows a word that stays is read off that copy."""
    known = public(np.array(CHANNELS["turned"]))
    releases = [
        [["nouna", "the", "nounb", "The", "unseen"], ["nounb"]],
        [["nounb", "nouna", "nounb", "nouna", "unseen"], ["the"]],
    ][:copies]
    alone, blind = (
        guesses(how, known, *releases, copies=copies) for how in ("bayesian", "bayesian-in-context")
    )
    assert alone == blind


def test_a_prior_fitted_to_the_release_knows_what_is_frequent_there(public: MakePublic) -> None:
    """All originals are the word that is rarer in public, and which most stay as they are."""
    known, size = public(np.array([[0.55, 0.45], [0.2, 0.8]])), 2000
    words = [known.table.words[1]] * size
    fitted, fixed = (right(made("bayesian", prior=p), known, words) for p in ("release", "public"))
    assert fixed == 0
    assert binomtest(fitted, size, 0.8).pvalue > FALSE_ALARM
