"""How well scores tell members from others, where the answer is known."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from rapt.attacks.membership_scores import FALSE_POSITIVES, RATES, Ranking, intervals


def test_the_metrics_are_those_of_the_roc_curve() -> None:
    """Scikit-learn's, with many equal scores too."""
    rng = np.random.default_rng(0)
    for members, others, digits in ((300, 250, 1), (40, 99, 1), (500, 2000, 1), (500, 2000, 9)):
        scores = [rng.normal(0.5, 1, members), rng.normal(0, 1, others)]
        scores = [some.round(digits) for some in scores]
        truth, flat = np.repeat([1, 0], [members, others]), np.concatenate(scores)
        found = Ranking.of(*scores).metrics()
        assert found["auc"] == pytest.approx(roc_auc_score(truth, flat))
        assert found["empirical_privacy"] == pytest.approx(1 - found["auc"])
        rates = roc_curve(truth, flat, drop_intermediate=False)
        for name, rate in RATES.items():
            assert found[name] == max(t for f, t, _ in zip(*rates, strict=True) if f <= rate)


def test_members_that_all_stand_above_are_all_told() -> None:
    found = Ranking.of(np.arange(10.0, 20), np.arange(10.0))
    told = dict.fromkeys(RATES, 1.0)
    assert found.metrics() == {"auc": 1.0, **told, "empirical_privacy": 0.0}
    assert found.curve()["true_positive_rate"] == [1.0] * len(FALSE_POSITIVES)
    low, high = intervals([found, found])["auc"]
    assert low == pytest.approx(0.025 ** (1 / 10))  # the eleventh might be the first that is not
    assert high == 1


def test_the_interval_is_delong_s_and_privacy_s_is_its_mirror() -> None:
    """Scores of two Gaussians at distance d: an AUC of Φ(d/√2); and by hand on five texts."""
    rng = np.random.default_rng(1)
    ranking = Ranking.of(rng.normal(1, 1, 2000), rng.normal(0, 1, 2000))
    low, high = intervals([ranking])["auc"]
    assert low < norm.cdf(1 / np.sqrt(2)) < high
    assert high - low < 0.04
    mirrored = intervals([ranking])["empirical_privacy"]
    assert mirrored == pytest.approx((1 - high, 1 - low))
    small = Ranking.of(np.array([3.0, 1.0]), np.array([0.0, 2.0, 2.5]))
    assert small.members.tolist() == pytest.approx([1, 1 / 3])
    assert small.others.tolist() == [1, 0.5, 0.5]
