"""Mechanisms with a closed form. Each statistical test raises a false alarm with p < 1e-6."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rapt.privacy.mechanisms import Space, WordMechanism, word_mechanism
from rapt.privacy.mechanisms.exponential import STEP, Exponential, SanTextPlus, Tem, blocks, decay
from rapt.privacy.streams import stream
from tests.privacy.mechanisms.conftest import space_of

FALSE_ALARM = 1e-6
N = 20_000
ETA = 3.0


def frequencies(made: WordMechanism, space: Space, row: int) -> np.ndarray:
    vectors = np.repeat(space.vectors[row : row + 1], N, axis=0)
    draws = made.draw(stream(0, made.name, row), N, space.vectors.shape[1])
    released = made.sampler(space, ETA)(vectors, draws)
    return np.bincount(released, minlength=len(space.vectors))


def distances(space: Space) -> np.ndarray:
    return np.linalg.norm(space.vectors[:, None].astype(float) - space.vectors, axis=2)


def cut(beta: float = 0.001) -> float:
    """γ, where TEM truncates the distances of twelve words."""
    return float(2 / ETA * np.log((1 - beta) * 11 / beta))


def law(name: str, space: Space, gamma: float = cut()) -> np.ndarray:
    """P(y|w) from the papers' formulas, row by row."""
    d = distances(space)
    match name:
        case "santext":
            weights = np.exp(-ETA / 2 * d)
        case "tem":
            # With ⊥: score −γ + 2·ln|W∖L|/η, then one of the words beyond γ at random.
            beyond = d > gamma
            bottom = np.exp(
                ETA / 2 * (-gamma + 2 / ETA * np.log(np.maximum(beyond.sum(1), 1e-300)))
            )
            weights = np.where(
                beyond,
                bottom[:, None] / np.maximum(beyond.sum(1), 1)[:, None],
                np.exp(-ETA / 2 * d),
            )
        case "santext-plus":
            rare = np.arange(12) >= 6  # the fixture's later words are the rarer
            weights = np.exp(-ETA / 2 * d) * rare
            weights /= weights.sum(axis=1, keepdims=True)
            return np.where(rare[:, None], weights, 0.3 * weights + 0.7 * np.eye(12))
        case "custext":
            block = blocks(space, 5)
            same = block[:, None] == block
            high = np.where(same, d, 0).max(axis=1, keepdims=True)
            weights = np.where(same, np.exp(-ETA / 2 * d / high), 0)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "given"),
    [("santext", {}), ("tem", {}), ("santext-plus", {}), ("custext", {"size": 5})],
)
@pytest.mark.parametrize("row", [0, 5, 11])
def test_words_come_out_as_the_paper_says(name: str, given: dict, row: int, plane: Space) -> None:
    counts = frequencies(word_mechanism(name, **given), plane, row)
    expected = N * law(name, plane)[row]
    assert not counts[expected == 0].any()
    at = expected > 0
    assert stats.chisquare(counts[at], expected[at]).pvalue > FALSE_ALARM


def test_tem_truncates_in_a_wide_space() -> None:
    """With words farther than γ, which the plane has none of."""
    space = space_of(np.random.default_rng(0).standard_normal((12, 2)) * 10)
    expected = N * law("tem", space)[3]
    counts = frequencies(Tem(), space, 3)
    assert (distances(space)[3] > cut()).sum() > 3
    # Words too rare for a chi-square test are counted together.
    often = expected > 5
    pooled = [np.append(x[often], x[~often].sum()) for x in (counts, expected)]
    assert stats.binomtest(int(pooled[0][-1]), N, pooled[1][-1] / N).pvalue > FALSE_ALARM / 2
    if often.sum() > 1:
        assert stats.chisquare(*pooled).pvalue > FALSE_ALARM / 2


@pytest.mark.parametrize("name", ["santext", "tem"])
def test_closed_forms_are_d_x_private(name: str, plane: Space) -> None:
    logs, d = np.log(law(name, plane)), distances(plane)
    loss = np.abs(logs[:, None] - logs[None]).max(axis=2)
    assert (loss <= ETA * d + 1e-9).all()
    assert loss.max() > 0.4 * ETA * d[loss == loss.max()].min()  # and no more so than they say


def scores(name: str, space: Space) -> np.ndarray:
    """The scores that OpenDP is given: of a word's block alone, minus infinity elsewhere."""
    d = distances(space)
    if name == "tem":
        return -np.minimum(d, cut(0.5))
    if name == "custext":
        block = blocks(space, 5)
        same = block[:, None] == block
        return np.where(same, -d / np.where(same, d, 0).max(axis=1, keepdims=True), -np.inf)
    return -d


def selected_by_opendp(measure: dp.Measure) -> dp.Measurement:
    """The index of the highest noisy score; at this scale the exponential mechanism's ½·η."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    return dp.m.make_noisy_max(*space, measure, scale=2 / ETA)


OF_OPENDP = [("santext", {}), ("tem", {"beta": 0.5}), ("custext", {"size": 5})]


@pytest.mark.parametrize(("name", "given"), OF_OPENDP)
def test_losses_are_within_the_privacy_map_of_opendp(name: str, given: dict, plane: Space) -> None:
    made, select = word_mechanism(name, **given), selected_by_opendp(dp.max_divergence())
    score = scores(name, plane)
    logs = np.log(np.maximum(law(name, plane, cut(0.5)), 1e-300))
    reached = []
    for one, other in combinations(range(12), 2):
        (apart,) = made.distance(plane, plane.vectors[[one]], plane.vectors[[other]])
        at = np.isfinite(score[one])
        if np.isinf(apart):
            assert not np.isfinite(score[other][at]).any()
            continue
        allowed = select.map(np.abs(score[one][at] - score[other][at]).max())
        loss = np.abs(logs[one][at] - logs[other][at]).max()
        assert loss <= allowed + 1e-9
        assert allowed <= made.claim.loss(ETA, apart) + 1e-9
        reached.append(loss / allowed)
    assert max(reached) > 0.6


@pytest.mark.parametrize(("name", "given"), OF_OPENDP)
def test_words_come_out_as_from_opendp(name: str, given: dict, plane: Space) -> None:
    """Two samples: with Gumbel's noise, its noisy maximum is the exponential mechanism."""
    select, row = selected_by_opendp(dp.zero_concentrated_divergence()), 5
    (at,) = np.isfinite(scores(name, plane)[row]).nonzero()
    score = scores(name, plane)[row][at].tolist()
    theirs = np.bincount(at[[select(score) for _ in range(4000)]], minlength=12)
    both = np.array([frequencies(word_mechanism(name, **given), plane, row), theirs])
    seen = both.sum(axis=0) > 20
    both = np.column_stack([both[:, seen], both[:, ~seen].sum(axis=1)])
    assert stats.chi2_contingency(both[:, both.sum(axis=0) > 0]).pvalue > FALSE_ALARM


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0.1, 50))
@settings(max_examples=20)
def test_what_is_drawn_is_within_delta_of_its_law(seed: int, size: int, rate: float) -> None:
    """The exact law: the ends between outcomes are found among all numbers of 53 bits."""
    vectors = np.random.default_rng(seed).standard_normal((size, 3)).astype(np.float32)
    choose = Exponential(vectors, decay(rate))
    queries = np.repeat(vectors[:1], size, axis=0)
    low, high = np.full(size, -1), np.full(size, 2**53)
    while (high - low > 1).any():  # the first number that gives a later row
        middle = np.clip((low + high) // 2, 0, 2**53 - 1)
        later = choose(queries, middle[:, None] * 2.0**-53) > np.arange(size)
        low, high = np.where(later, low, middle), np.where(later, middle, high)
    weights = decay(rate)(np.linalg.norm(vectors.astype(float) - vectors[0], axis=1)).tolist()
    whole = sum(map(Fraction, weights))
    drawn = np.diff([0, *high.tolist()]).tolist()
    moved = [
        abs(Fraction(n, 2**53) - Fraction(w) / whole) for n, w in zip(drawn, weights, strict=True)
    ]
    assert sum(drawn) == 2**53
    assert sum(moved) / 2 <= size * STEP


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 50))
@settings(max_examples=40)
def test_the_inverse_is_the_plain_one(seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((30, 4)).astype(np.float32)
    queries = np.concatenate([vectors[:5], rng.standard_normal((10, 4)).astype(np.float32)])
    uniform = rng.random(15)
    released = Exponential(vectors, decay(rate))(queries, uniform[:, None])
    for query, u, row in zip(queries, uniform, released, strict=True):
        weights = np.exp(-rate * np.linalg.norm(vectors.astype(float) - query, axis=1))
        upto = np.concatenate([[0], np.cumsum(weights) / weights.sum()])
        assert upto[row] - 1e-6 <= u <= upto[row + 1] + 1e-6


def test_draws_on_a_boundary_do_not_depend_on_the_batch() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((64, 16)).astype(np.float32)
    choose = Exponential(vectors, decay(2.0))
    mass = np.cumsum(np.exp(-2 * np.linalg.norm(vectors.astype(float) - vectors[7], axis=1)))
    uniform = mass[:-1] / mass[-1]  # exactly where one word ends and the next begins
    queries = np.repeat(vectors[7:8], len(uniform), axis=0)
    whole = choose(queries, uniform[:, None])
    alone = [choose(q[None], u.reshape(1, 1))[0] for q, u in zip(queries, uniform, strict=True)]
    np.testing.assert_array_equal(whole, alone)


def test_far_words_do_not_underflow() -> None:
    choose = Exponential(np.eye(3, dtype=np.float32), decay(1e4))
    assert choose(np.array([[1e3, 0, 0]]), np.array([[0.5]])).tolist() == [0]


def test_santext_plus_takes_an_unknown_word_for_a_rare_one(plane: Space) -> None:
    unknown = np.repeat(plane.vectors[:1] + np.float32(1e-3), 2000, axis=0)
    made = SanTextPlus()
    released = made.sampler(plane, ETA)(unknown, made.draw(stream(0, "u"), 2000, 2))
    assert released.min() >= 6


def test_blocks_partition_the_words_by_closeness() -> None:
    space = space_of(np.random.default_rng(0).standard_normal((47, 3)))
    block = blocks(space, 10)
    assert np.bincount(block).tolist() == [10, 10, 10, 17]
    d = np.linalg.norm(space.vectors.astype(float) - space.vectors[0], axis=1)
    assert set(np.flatnonzero(block == block[0])) == set(d.argsort()[:10])


def test_custext_distances_are_its_blocks(plane: Space) -> None:
    made = word_mechanism("custext", size=5)
    block = blocks(plane, 5)
    for one, other in pairwise(range(12)):
        pair = plane.vectors[[one]], plane.vectors[[other]]
        expected = 1.0 if block[one] == block[other] else np.inf
        assert made.distance(plane, *pair).tolist() == [expected]
        assert made.claim.published
        assert made.claim.published.between(made, plane, *pair).tolist() == [1.0]
