import numpy as np
import pytest
from scipy.stats import beta, binom, binomtest, norm, t

from rapt.analysis.intervals import difference, interval, mean_interval, of_accuracy, rate_interval
from rapt.attacks.membership_scores import Ranking, intervals


def test_it_holds_the_true_share_as_often_as_it_says() -> None:
    """Texts of 1 to 20 words that share their chance: 2,000 samples of 300 texts and 3 seeds.

    Its coverage is compared with 92 and 98 %, at 1e-6 each.
    """
    rng, held, samples = np.random.default_rng(0), 0, 2000
    for _ in range(samples):
        words = rng.integers(1, 21, 300)
        chance = rng.beta(2, 3, 300)
        right = rng.binomial(words, chance, (3, 300))
        low, high = interval(
            right.sum(0), 3 * words, np.asarray(right.sum(1) / words.sum(), np.float64)
        )
        held += low <= 0.4 <= high
    assert binomtest(held, samples, 0.92, alternative="less").pvalue > 1e-6
    assert binomtest(held, samples, 0.98, alternative="greater").pvalue > 1e-6


def test_what_seeds_have_in_common_widens_it() -> None:
    right, counted = np.full(100, 100), np.full(100, 200)
    assert interval(right, counted, np.array([0.5, 0.5])) == (0.5, 0.5)
    seeds = np.array([0.5, 0.52, 0.48, 0.49, 0.51])
    reach = t.ppf(0.975, 4) * seeds.std(ddof=1) / np.sqrt(5)
    assert interval(right, counted, seeds) == pytest.approx((0.5 - reach, 0.5 + reach))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_few_seeds_that_differ_are_covered_all_the_same(seeds: int) -> None:
    """All of the variance is the seeds': 4,000 samples, coverage compared with 93 and 97 %."""
    rng, held = np.random.default_rng(0), 0
    counted = np.full(50, 100 * seeds)
    for _ in range(4000):
        shares = rng.normal(0.5, 0.02, seeds)
        low, high = interval(np.rint(shares.mean() * counted).astype(int), counted, shares)
        held += low <= 0.5 <= high
    assert binomtest(held, 4000, 0.93, alternative="less").pvalue > 1e-6
    assert binomtest(held, 4000, 0.97, alternative="greater").pvalue > 1e-6


def test_it_stays_among_the_shares() -> None:
    one, nothing = np.ones(50, np.int64), np.zeros(50, np.int64)
    exact = binomtest(50, 50).proportion_ci(0.95, "exact")
    assert interval(one, one, np.array([1.0])) == pytest.approx((exact.low, 1.0))
    assert interval(nothing, one, np.array([0.0])) == pytest.approx((0.0, 1 - exact.low))
    assert interval(nothing, nothing, np.array([0.0])) == (0.0, 1.0)
    few, of = np.array([0, 0, 1]), np.full(3, 10)  # the reach goes beyond 0
    assert interval(few, of, np.array([1 / 30]))[0] == 0.0
    assert interval(of - few, of, np.array([29 / 30]))[1] == 1.0
    single = np.array([3, 0]), np.array([10, 0])
    assert interval(*single, np.array([0.3])) == (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("distance", "seeds"), [(0.0, 1), (0.0, 2), (1.0, 1), (1.0, 3)])
def test_an_auc_is_held_as_often_as_it_says(distance: float, seeds: int) -> None:
    """At an AUC of 0.5 (nothing to tell) and of 0.76: 1,000 samples of 60 members, 40 others.

    A text's scores of several seeds have half of their variance in common. At 1e-6 each the
    coverage is compared with 92 %, and of one seed with 98 %. The seeds are counted on top of the
    texts, which errs towards a wide interval.
    """
    rng, held, samples = np.random.default_rng(0), 0, 1000
    true = norm.cdf(distance / np.sqrt(2))
    for _ in range(samples):
        members, others = (
            (rng.normal(size=n) + rng.normal(size=(seeds, n))) / np.sqrt(2) for n in (60, 40)
        )
        rankings = [Ranking.of(*pair) for pair in zip(members + distance, others, strict=True)]
        low, high = intervals(rankings)["auc"]
        held += low <= true <= high
    assert binomtest(held, samples, 0.92, alternative="less").pvalue > 1e-6
    assert seeds > 1 or binomtest(held, samples, 0.98, alternative="greater").pvalue > 1e-6


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_mean_is_held_as_often_as_it_says(seeds: int) -> None:
    """Squared errors above 1, of texts of 1 to 20 words: 2,000 samples of 300 texts.

    Its coverage is compared with 92 and 98 %, at 1e-6 each.
    """
    rng, held, samples = np.random.default_rng(0), 0, 2000
    for _ in range(samples):
        words = rng.integers(1, 21, 300)
        sums = rng.gamma(words * rng.gamma(4, 1 / 4, 300), 2, (seeds, 300))
        low, high = mean_interval(
            sums.sum(0), seeds * words, np.asarray(sums.sum(1) / words.sum(), np.float64)
        )
        held += low <= 2 <= high
    assert binomtest(held, samples, 0.92, alternative="less").pvalue > 1e-6
    assert binomtest(held, samples, 0.98, alternative="greater").pvalue > 1e-6


def test_a_mean_of_nothing_but_zeros_is_zero() -> None:
    assert mean_interval(np.zeros(5), np.ones(5, np.int64), np.zeros(2)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("distance", "others", "rate"),
    [(2.0, 300, 0.01), (1.0, 1000, 0.01), (3.0, 1000, 0.001), (3.0, 5000, 0.001)],
)
def test_a_rate_at_few_false_positives_is_held_as_often_as_it_says(
    distance: float, others: int, rate: float
) -> None:
    """The interval is exact: 300 samples of 200 members, coverage compared with 95 % at 1e-6.

    The threshold itself comes from the few others at the top, which a share of the members alone
    would not know.
    """
    rng, held = np.random.default_rng(0), 0
    true = norm.sf(norm.isf(rate) - distance)
    for _ in range(300):
        low, high = rate_interval(
            rng.normal(distance, size=(1, 200)), rng.normal(size=(1, others)), rate
        )
        held += low <= true <= high
        # The chance that no other exceeds the score: below 1.25 %, or there is no lower limit.
        assert low == 0 or (1 - rate) ** others < 0.0125
    assert binomtest(held, 300, 0.95, alternative="less").pvalue > 1e-6


def test_the_limits_of_a_rate_are_clopper_and_pearson_s_at_two_ranks() -> None:
    """Of 1,000 others 4 to 18 exceed the score, each side with a chance of 1.25 % at most."""
    members, others = np.linspace(0, 1, 200)[None], np.linspace(0, 1, 1000)[None]
    low, high = rate_interval(members, others, 0.01)
    assert binom.cdf(3, 1000, 0.01) < 0.0125 < binom.cdf(4, 1000, 0.01)
    assert binom.sf(18, 1000, 0.01) < 0.0125 < binom.sf(17, 1000, 0.01)
    told = [int((members > others[0, -rank]).sum()) for rank in (4, 19)]
    assert low == pytest.approx(beta.ppf(0.0125, told[0], 201 - told[0]))
    assert high == pytest.approx(beta.isf(0.0125, told[1] + 1, 200 - told[1]))
    both = rate_interval(np.repeat(members, 2, 0), np.repeat(others, 2, 0), 0.01)
    assert both == pytest.approx((low, high))


@pytest.mark.parametrize("others", [1, 3])
def test_a_difference_on_the_same_texts_holds_as_often_as_it_says(others: int) -> None:
    """Two models err on the same hard texts: 1,000 samples of 200, compared with 92 and 98 %."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(1000):
        ease = rng.normal(0, 1, 200)
        right, other = (
            rng.random((k, 200)) < norm.cdf(ease + shift) for k, shift in ((3, 0.5), (others, 0.0))
        )
        _, low, high = difference(right, other)
        # Of Φ(e + s) over e ~ N(0, 1) the mean is Φ(s / √2).
        held += low <= norm.cdf(0.5 / np.sqrt(2)) - 0.5 <= high
    assert binomtest(held, 1000, 0.92, alternative="less").pvalue > 1e-6
    assert binomtest(held, 1000, 0.98, alternative="greater").pvalue > 1e-6


def test_models_that_agree_on_every_text_do_not_differ() -> None:
    right = np.arange(50) % 3 > 0
    assert difference(np.stack([right] * 3), right[None]) == (0.0, 0.0, 0.0)


def test_the_interval_of_an_accuracy_is_that_of_a_share_of_texts() -> None:
    right = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], bool)
    expected = interval(np.array([2, 2, 2]), np.array([3, 3, 3]), np.array([2, 3, 1]) / 3)
    assert of_accuracy(right) == pytest.approx(expected)
