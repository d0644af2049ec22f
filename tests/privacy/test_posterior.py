"""P(w|y) against Bayes' rule by hand, and in the cases where it is known without computing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array

from rapt.privacy.categories import VERBATIM
from rapt.privacy.channel import Channel, choose, estimate
from rapt.privacy.mechanisms import PCT2T, T2T
from rapt.privacy.posterior import Posterior, draws
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from tests.conftest import NOUNS, VERBS

SIZE = 18
PROTECTED = len(NOUNS) + len(VERBS)


def channel_of(rows: list[int], counts: list[list[int]] | NDArray[np.int64]) -> Channel:
    return Channel(np.array(rows), csr_array(np.array(counts)))


def found(channel: Channel, frequency: list[float], groups: list[int]) -> NDArray[np.float64]:
    return np.asarray(Posterior.of(channel, np.array(frequency), groups).matrix.toarray())


def fitted(
    channel: Channel, frequency: list[float], groups: list[int], released: list[int]
) -> NDArray[np.float64]:
    matrix = Posterior.of(channel, np.array(frequency), groups, np.array(released)).matrix
    return np.asarray(matrix.toarray())


def of(privatizer: Privatizer, rows: NDArray[np.int64], draws: int = 50) -> Posterior:
    channel = estimate(privatizer, rows, draws, 0)
    groups = privatizer.groups_of_rows(np.arange(SIZE))
    return Posterior.of(channel, privatizer.table.frequency, groups)


def test_two_words_in_closed_form() -> None:
    """P(y=a|a) = 0.8, P(y=a|b) = 0.3, π(a) = 0.1, π(b) = 0.4."""
    channel = channel_of([0, 1], [[8, 2], [3, 7]])
    expected = [
        [0.8 * 0.1 / (0.8 * 0.1 + 0.3 * 0.4), 0.3 * 0.4 / (0.8 * 0.1 + 0.3 * 0.4)],
        [0.2 * 0.1 / (0.2 * 0.1 + 0.7 * 0.4), 0.7 * 0.4 / (0.2 * 0.1 + 0.7 * 0.4)],
    ]
    np.testing.assert_allclose(found(channel, [0.1, 0.4], [0, 0]), expected)


@given(st.lists(st.floats(1e-6, 1), min_size=5, max_size=5))
def test_a_channel_that_says_nothing_leaves_the_prior(frequency: list[float]) -> None:
    channel = channel_of(list(range(5)), np.full((5, 5), 3))
    prior = np.array(frequency) / sum(frequency)
    np.testing.assert_allclose(found(channel, frequency, [0] * 5), np.tile(prior, (5, 1)))


@pytest.mark.parametrize("frequency", [[0.5, 0.3, 0.2], [0.0, 0.3, 0.0], [0.0, 0.0, 0.0]])
def test_the_identity_is_its_own_posterior(frequency: list[float]) -> None:
    channel = channel_of([0, 2], [[9, 0, 0], [0, 0, 9]])
    np.testing.assert_array_equal(found(channel, frequency, [0, 0, 0]), np.eye(3))


def test_a_word_outside_the_channel_counts_as_itself_at_the_rate_of_its_group() -> None:
    """Words 0 and 1 are kept in 0.5 and 0.7 of their draws, 2 is of their group; 3 in 0.4, as 4."""
    counts = [[50, 20, 30, 0, 0], [20, 70, 10, 0, 0], [0, 0, 0, 40, 60]]
    matrix = found(channel_of([0, 1, 3], counts), [0.4, 0.3, 0.2, 0.1, 0.5], [0, 0, 0, 1, 1])
    joint = np.array([0.3 * 0.4, 0.1 * 0.3, 0.6 * 0.2, 0, 0])
    np.testing.assert_allclose(matrix[2], joint / joint.sum())
    np.testing.assert_allclose(matrix[0, 2], 0)
    np.testing.assert_allclose(matrix[4, 3:], np.array([0.6 * 0.1, 0.4 * 0.5]) / 0.26)


def test_a_group_without_a_word_in_the_channel_has_the_mean_rate_of_all() -> None:
    channel = channel_of([0], [[5, 0, 5]])
    matrix = found(channel, [0.5, 0.5, 0.5], [0, 1, 0])
    np.testing.assert_allclose(matrix, [[1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]])


def test_what_nothing_leads_to_has_no_posterior() -> None:
    posterior = Posterior.of(channel_of([0], [[0, 5, 0]]), np.ones(3), [0, 0, VERBATIM])
    assert posterior.rows.tolist() == [1]
    assert posterior.matrix.toarray().tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_words_of_unknown_frequency_count_as_the_rarest() -> None:
    channel = channel_of([0, 1, 2], np.full((3, 3), 10))
    np.testing.assert_allclose(found(channel, [0.6, 0.2, 0.0], [0] * 3)[0], [0.6, 0.2, 0.2])


def test_restricted_to_some_words_it_leaves_these_alone() -> None:
    whole = Posterior.of(channel_of([0, 1, 2], np.full((3, 3), 10)), np.ones(3), [0] * 3)
    part = whole.restricted(np.array([True, False, True]))
    assert part.rows.tolist() == [0, 2]
    np.testing.assert_array_equal(part.matrix.toarray()[[0, 2]], whole.matrix.toarray()[[0, 2]])
    assert part.modes(np.array([[0], [1], [2]])).tolist() == [0, -1, 0]


@given(st.sets(st.integers(0, PROTECTED - 1), min_size=1), st.sampled_from([0.1, 2.0, 5.0, np.inf]))
def test_rows_sum_to_one_within_their_group(
    table: EmbeddingTable, rows: set[int], eta: float
) -> None:
    privatizer = Privatizer(table=table, mechanism=PCT2T(), eta=eta, categories=("noun", "verb"))
    posterior = of(privatizer, np.array(sorted(rows)), 5)
    matrix = posterior.matrix.toarray()
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix[posterior.rows].sum(axis=1), 1)
    assert (posterior.rows < PROTECTED).all()  # a determiner is released as it is
    assert matrix[: len(NOUNS), len(NOUNS) :].sum() == 0
    assert matrix[len(NOUNS) :, : len(NOUNS)].sum() == 0


@pytest.mark.parametrize("eta", [3.0, np.inf])
def test_it_is_bayes_rule_on_the_estimated_channel(table: EmbeddingTable, eta: float) -> None:
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=eta)
    matrix = of(privatizer, np.arange(SIZE)).matrix.toarray()
    channel = estimate(privatizer, range(SIZE), 50, 0)
    counts = channel.counts.toarray()
    once, twice = ((counts == times).sum(axis=1, keepdims=True) for times in (1, 2))
    lost = once / np.maximum(once + 2 * twice, 1) * ~np.eye(SIZE, dtype=bool)
    counts = np.where(counts > 0, counts - lost, 0)
    joint = (counts * table.frequency[:, None]).T
    np.testing.assert_allclose(matrix, joint / joint.sum(axis=1, keepdims=True))
    if np.isinf(eta):
        np.testing.assert_allclose(matrix, np.eye(SIZE))


def test_chance_draws_of_many_words_outweigh_no_word_itself() -> None:
    """A rare y that keeps itself half the time, and that each of 40 frequent words met once."""
    size = 41
    counts = np.zeros((size, size), np.int64)
    counts[np.arange(size), np.arange(size)] = 50
    counts[1:, 0] = 1
    counts[1:, 1] += 49 - 49 * (np.arange(1, size) == 1)
    counts[0, 1] = 50
    frequency = [1e-3, *[1.0] * 40]
    posterior = Posterior.of(channel_of(list(range(size)), counts), np.array(frequency), [0] * size)
    assert posterior.modes(np.array([[0]])).tolist() == [0]
    assert posterior.matrix[[0]].toarray().ravel() == pytest.approx([1.0, *[0.0] * 40])


def test_few_draws_take_no_word_from_itself() -> None:
    """y stays itself in 2 of 20 draws, the others give 18 words; f leads to y in 12 of 1,000.

    f is 10 times as frequent: 0.12. y has 0.1 and its part of what no draw met, 0.81 · 2/39: that
    is 0.14. With D = 0.9 taken off its own draws, too, it would be 0.10.
    """
    counts = np.zeros((2, 20), np.int64)
    counts[0] = [2, 0, *[1] * 18]
    counts[1, :2] = 12, 988
    frequency = np.array([1.0, 10.0, *[1e-6] * 18])
    posterior = Posterior.of(channel_of([0, 1], counts), frequency, [0] * 20)
    assert posterior.modes(np.array([[0]])).tolist() == [0]


def test_a_channel_of_some_words_as_the_stage_chooses_them(table: EmbeddingTable) -> None:
    """Frequent and sampled words both count, and every candidate has a posterior."""
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=4.0)
    choice = choose(table, privatizer.candidates, 4, 5, 0)
    assert (choice.sampled & ~choice.frequent).any()
    posterior = of(privatizer, choice.rows)
    assert posterior.rows.tolist() == list(range(SIZE))
    mixed = posterior.matrix.toarray() - np.diag(posterior.matrix.diagonal())
    assert (mixed[:, choice.rows[choice.sampled & ~choice.frequent]] > 0).any()
    outside = np.setdiff1d(np.arange(SIZE), choice.rows)
    assert (mixed[:, outside] == 0).all()


@given(
    st.lists(st.floats(1e-9, 1) | st.just(0.0), min_size=6, max_size=6),
    st.sets(st.integers(0, 5), min_size=1),
    st.integers(1, 10_000),
)
def test_no_draw_weighs_more_than_its_share(
    frequency: list[float], rows: set[int], shared: int
) -> None:
    chosen = np.array(sorted(rows))
    known = [f for f in frequency if f]
    prior = np.array([f or min(known, default=1.0) for f in frequency])[chosen]
    taken = draws(np.array(frequency), chosen, shared)
    assert (taken >= 1).all()
    assert taken.sum() <= shared + len(chosen)
    assert (prior / taken <= prior.sum() / shared * (1 + 1e-9)).all()


@pytest.mark.slow
def test_draws_by_frequency_find_the_posterior_of_rare_words(table: EmbeddingTable) -> None:
    """Against many draws of all; where one word is a million times as frequent as another."""
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=3.0)
    rows, frequency = np.arange(SIZE), 0.4 ** np.arange(SIZE)

    def posterior(taken: int | NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        channel = estimate(privatizer, rows, taken, seed)
        return np.asarray(Posterior.of(channel, frequency, [0] * SIZE).matrix.toarray())

    truth = posterior(20_000, 0)
    shared = 20 + draws(frequency, rows, 2000)
    equal = posterior(int(shared.sum()) // SIZE, 1)
    errors = [np.abs(found - truth).sum(axis=1).mean() for found in (posterior(shared, 1), equal)]
    assert errors[0] < 0.7 * errors[1]


def test_a_fitted_prior_has_the_closed_form_of_two_words() -> None:
    """It is where half of π is public and the other half what the posterior makes of the release.

    P(y=a|a) = 0.8, P(y=a|b) = 0.4; public 0.5, 0.5; 60 % of the released words are a. p = π(a):
    2p = 0.5 + 0.6·0.8p / (0.4 + 0.4p) + 0.4·0.2p / (0.6 − 0.4p).
    """

    def missing(p: float) -> float:
        return 0.5 + 0.48 * p / (0.4 + 0.4 * p) + 0.08 * p / (0.6 - 0.4 * p) - 2 * p

    p = brentq(missing, 1e-9, 1 - 1e-9, xtol=1e-14)
    found = fitted(channel_of([0, 1], [[8, 2], [4, 6]]), [1, 1], [0, 0], [600, 400])
    expected = [
        [0.8 * p / (0.4 + 0.4 * p), 0.4 * (1 - p) / (0.4 + 0.4 * p)],
        [0.2 * p / (0.6 - 0.4 * p), 0.6 * (1 - p) / (0.6 - 0.4 * p)],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_prior_fitted_to_what_public_text_leads_to_is_the_public_one() -> None:
    """The release is as frequent as the public prior and the channel make it."""
    channel = channel_of([0, 1, 2], [[70, 20, 10], [30, 60, 10], [10, 10, 80]])
    frequency = [0.5, 0.3, 0.2]
    released = (1e6 * (np.array(frequency) @ channel.matrix.toarray())).astype(int).tolist()
    np.testing.assert_allclose(
        fitted(channel, frequency, [0] * 3, released),
        Posterior.of(channel, np.array(frequency), [0] * 3).matrix.toarray(),
        rtol=1e-5,
    )


def test_a_release_says_more_of_its_words_than_public_text() -> None:
    """Drawn from a π of its own: fitted, the posterior gives the true word a higher probability."""
    rng = np.random.default_rng(0)
    matrix = 0.5 * np.eye(20) + 0.5 * rng.dirichlet(np.full(20, 0.3), 20)
    channel = channel_of(list(range(20)), np.rint(1e4 * matrix).astype(int))
    own, public = rng.dirichlet(np.full(20, 0.3)), np.full(20, 0.05)
    words = rng.choice(20, 2000, p=own)
    released = np.array([rng.choice(20, p=matrix[w] / matrix[w].sum()) for w in words])
    counts = np.bincount(released, minlength=20)
    by_public, by_release = (
        np.asarray(Posterior.of(channel, public, [0] * 20, given).matrix[released, words]).mean()
        for given in (None, counts)
    )
    assert by_release > by_public + 0.02


@pytest.mark.parametrize("released", [[0, 0, 0], [0, 0, 9]])
def test_a_release_that_says_nothing_leaves_the_public_prior(released: list[int]) -> None:
    """No words, or none that the mechanism replaces."""
    channel = channel_of([0, 1], [[8, 2, 0], [3, 7, 0]])
    groups = [0, 0, VERBATIM]
    np.testing.assert_array_equal(
        fitted(channel, [0.5, 0.4, 0.1], groups, released), found(channel, [0.5, 0.4, 0.1], groups)
    )


@pytest.mark.parametrize(("inside", "draws"), [(60, 20), (60, 4000), (12, 4000)])
def test_a_channel_that_knows_little_does_not_turn_the_prior(inside: int, draws: int) -> None:
    """Few words, few draws: a release made by the public prior leaves it about as it was.

    What words outside the channel lead to beside themselves, and what few draws did not meet, is no
    evidence against them.
    """
    rng = np.random.default_rng(0)
    size = 60
    matrix = 0.3 * np.eye(size) + 0.7 * rng.dirichlet(np.full(size, 0.5), size)
    frequency = rng.dirichlet(np.full(size, 1.0))
    counts = np.array([rng.multinomial(draws, row) for row in matrix[:inside]])
    channel = channel_of(list(range(inside)), counts)
    released = np.rint(1e6 * frequency @ matrix).astype(int)
    prior = Posterior.of(channel, frequency, [0] * size, released).prior
    few = frequency < np.median(frequency)
    assert prior[:12].sum() == pytest.approx(frequency[:12].sum(), abs=0.03)
    assert prior[few].sum() == pytest.approx(frequency[few].sum(), abs=0.03)


@pytest.mark.parametrize("releases", [1, 2])
def test_the_mode_is_that_of_all_words_of_the_group(releases: int) -> None:
    """Enumerated, also where no draw of the likeliest word led to any y that is released."""
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, VERBATIM], [20, 8, 2])
    counts = np.zeros((20, 30), np.int64)
    for draws_of in counts:  # eight draws of each word of group 0
        np.add.at(draws_of, rng.integers(20, size=8), 1)
    posterior = Posterior.of(channel_of([*range(20)], counts), 1 / np.arange(1.0, 31) ** 2, groups)
    chance = posterior.leads.toarray() + np.where(
        groups[:, None] == groups, np.outer(posterior.overall, posterior.rest), 0
    )
    released = rng.integers(20, size=(200, releases))
    scores = posterior.prior * chance[released].prod(axis=1)
    best = np.where(scores.max(axis=1) > 0, scores.argmax(axis=1), -1)
    modes = posterior.modes(released)
    np.testing.assert_array_equal(modes, best)
    met = posterior.leads.toarray()[released].max(axis=1)[np.arange(200), modes] > 0
    assert 0 < met.mean() < 1
    known = np.arange(30) >= 10
    found = posterior.restricted(known).modes(np.arange(30)[:, None])
    assert (found[[*range(10), 28, 29]] == -1).all() and (found[10:28] >= 0).all()


def test_no_words_have_no_originals(table: EmbeddingTable) -> None:
    posterior = of(Privatizer(table=table, mechanism=T2T(), eta=3.0), np.arange(SIZE))
    assert posterior.modes(np.empty((0, 2), np.int64)).tolist() == []
