"""What synthetic texts tell of single private ones, where the answer is known."""

from math import exp

import numpy as np
import pytest
from scipy.stats import binom

from rapt import paths
from rapt.attacks.membership_scores import Ranking
from rapt.synthesis.membership import Canaries, audit, likelihood, membership, told
from rapt.utils.errors import RaptError

HALVES = ("film", "plot", "star", "good", "slow", "fine", "dull", "tale", "song", "joke", "war")
WORDS = [one + other for one in HALVES for other in HALVES]
RUNS = 100
MANY = binom.isf(1e-4, RUNS, 0.05)  # of what happens in 1 of 20 runs: a false alarm in 10,000


def random_texts(count: int, seed: int) -> list[list[str]]:
    return np.random.default_rng(seed).choice(WORDS, (count, 7)).tolist()


def test_a_synthesizer_that_copies_is_found_by_both_scores_and_breaks_its_law() -> None:
    """300 canaries, whose copies have other capitals: an AUC near 1, and more than ε = 1."""
    texts, test = random_texts(340, 0), random_texts(30, 1)
    canaries = Canaries.draw(340, 300, np.random.default_rng(1))
    copies = [[word.title() for word in texts[row]] for row in canaries.kept(340)]
    found = told(copies, texts, test, canaries, 1e-5, paths.MINILM)
    counts = [found["membership"].pop(name) for name in ("members", "others")]
    assert counts == [canaries.is_in.sum(), (~canaries.is_in).sum()]
    for of in found["membership"].values():
        assert of["auc"]["low"] > 0.95
        assert of["tpr_at_1"]["value"] > 0.8
        assert "tpr_at_01" not in of  # of so few others none is one false alarm
    assert 1 < found["audit"]["shown"] <= found["audit"]["most"]

    nobody = Canaries.draw(340, 0, np.random.default_rng(1))
    found = told(copies, texts, test, nobody, 1e-5, paths.MINILM)
    assert found.keys() == {"membership"}
    assert [found["membership"][name] for name in ("members", "others")] == [340, 30]


def test_a_synthesizer_that_never_saw_the_texts_tells_nothing_of_them() -> None:
    """Intervals without 0.5, and bounds above 0, are as rare as they say, or rarer."""
    texts = random_texts(100, 0)
    found = {"bigrams": likelihood(random_texts(50, 1), texts), "equal": np.zeros(len(texts))}
    missed, above = [], 0
    for run in range(RUNS):
        is_in = Canaries.draw(len(texts), len(texts), np.random.default_rng(run)).is_in
        of = membership(found, is_in)
        assert of["equal"]["auc"]["value"] == 0.5
        missed.append(not of["bigrams"]["auc"]["low"] <= 0.5 <= of["bigrams"]["auc"]["high"])
        above += audit(found, is_in, 0.0)["shown"] > 0
    assert sum(missed) <= MANY
    assert above <= MANY


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_bound_comes_near_the_epsilon_of_randomized_response_and_stays_below(
    epsilon: float,
) -> None:
    """A text of a public list is in the release with odds e^ε if it is private, else with e^−ε.

    That is exactly ε-private for a text more or less. A claim of half as much is refuted.
    """
    shown = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        is_in = Canaries.draw(400, 400, rng).is_in
        is_there = is_in == (rng.random(400) < 1 / (1 + exp(-epsilon)))
        shown.append(audit({"there": is_there.astype(np.float64)}, is_in, 0.0)["shown"])
    assert (np.array(shown) > epsilon).sum() <= MANY
    assert np.median(shown) > epsilon / 2


def test_the_likelihood_finds_what_the_synthetic_texts_share_and_no_plain_text() -> None:
    candidates = [["odd", "word"], ["the", "film"], ["film", "the"], ["the", "film"]]
    found = likelihood([["The", "film"], ["the", "new", "film"]], candidates)
    assert found[1] == found[3] > found[2] > found[0]
    plain = likelihood([["the"], ["odd", "word"]], [["the"] * 2, ["the", "film"], ["odd", "word"]])
    assert plain[2] > plain[0] > plain[1]


def test_canaries_are_left_out_by_a_fair_coin_whatever_their_place() -> None:
    """2,000 of 3,000: half of them within five deviations, and no order tells the coins."""
    canaries = Canaries.draw(3000, 2000, np.random.default_rng(0))
    read = canaries.kept(3000)
    assert len(read) == 3000 - (~canaries.is_in).sum()
    assert {*range(3000)} - {*read} == {*canaries.rows[~canaries.is_in]}
    assert abs(canaries.is_in.mean() - 0.5) < 5 * 0.5 / 2000**0.5
    for order in (np.arange(2000.0), canaries.rows.astype(np.float64)):
        ranking = Ranking.of(order[canaries.is_in], order[~canaries.is_in])
        assert abs(ranking.metrics()["auc"] - 0.5) < 5 * (1 / 6000) ** 0.5
    assert Canaries.draw(7, 0, np.random.default_rng(0)).kept(7).tolist() == [*range(7)]


@pytest.mark.parametrize("canaries", [19, 25])
def test_too_few_canaries_and_too_many_are_one_line(canaries: int) -> None:
    line = f"canaries: got {canaries} of 24 training texts, expected 0, or 20 to 24. "
    with pytest.raises(RaptError, match=line):
        Canaries.draw(24, canaries, np.random.default_rng(0))
