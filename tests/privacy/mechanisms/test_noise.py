"""Laws of the mechanisms with noise. Each statistical test raises a false alarm with p < 1e-6."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from rapt.privacy.mechanisms import Space, word_mechanism
from rapt.privacy.mechanisms.claim import euclidean
from rapt.privacy.mechanisms.noise import Mahalanobis, Vickrey, noisy, spherical_noise
from rapt.privacy.streams import stream
from tests.privacy.mechanisms.conftest import space_of

FALSE_ALARM = 1e-6
N = 20_000


@pytest.mark.parametrize("dimension", [1, 2, 8, 384])
def test_radius_is_gamma_of_dimension(dimension: int) -> None:
    n = N if dimension < 100 else 2_000
    radius = np.linalg.norm(spherical_noise(stream(0, "radius"), n, dimension), axis=1)
    assert stats.kstest(radius, stats.gamma(dimension).cdf).pvalue > FALSE_ALARM


def test_a_draw_from_the_ball_is_told_apart() -> None:
    rng = stream(0, "ball")
    shrunk = rng.random((N, 1)) ** (1 / 8)  # radius of a uniform draw from the unit ball
    radius = np.linalg.norm(spherical_noise(rng, N, 8) * shrunk, axis=1)
    assert stats.kstest(radius, stats.gamma(8).cdf).pvalue < FALSE_ALARM


def test_direction_is_uniform_on_the_sphere() -> None:
    noise = spherical_noise(stream(0, "direction"), N, 8)
    direction = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    # One coordinate of a uniform direction: (x + 1) / 2 ~ Beta((d - 1)/2, (d - 1)/2).
    law = stats.beta(3.5, 3.5).cdf
    for axis in range(8):
        assert stats.kstest((direction[:, axis] + 1) / 2, law).pvalue > FALSE_ALARM / 8


def test_radius_and_direction_are_independent() -> None:
    noise = spherical_noise(stream(0, "independent"), N, 8)
    radius = np.linalg.norm(noise, axis=1)
    assert stats.spearmanr(radius, noise[:, 0] / radius).pvalue > FALSE_ALARM


def test_words_of_a_text_have_independent_noise() -> None:
    noise = spherical_noise(stream(0, "words"), N, 8)
    for one, other in ((noise[:-1, 0], noise[1:, 0]), (noise[:-1, 1], noise[1:, 0])):
        assert stats.spearmanr(one, other).pvalue > FALSE_ALARM / 2


@pytest.mark.parametrize("dimension", [1, 2])
def test_no_half_space_tells_more_than_the_bound(dimension: int) -> None:
    """Exact intervals, all of them right with probability 1 - 1e-6."""
    eta, apart, ends = 2.0, 1.0, np.linspace(-1, 3, 9)
    pair = np.zeros((2, 1, dimension))
    pair[1, 0, 0] = apart
    drawn = [
        noisy(np.repeat(vector, N, axis=0), spherical_noise(stream(0, "h", k), N, dimension), eta)
        for k, vector in enumerate(pair)
    ]
    for end in ends:
        beyond = [int((noise[:, 0] >= end).sum()) for noise in drawn]
        one, other = (
            stats.binomtest(k, N).proportion_ci(1 - FALSE_ALARM / len(ends) / 2) for k in beyond
        )
        assert other.low <= np.exp(eta * apart) * one.high
        if dimension == 1 and end == 1.0:  # where the bound is reached
            assert other.high >= 0.9 * np.exp(eta * apart) * one.low


@pytest.fixture(scope="module")
def oblong() -> Space:
    """Words spread ten times as far along the first axis."""
    return space_of(np.random.default_rng(0).standard_normal((500, 3)) * [10, 1, 1])


@pytest.mark.parametrize("weight", [0.0, 0.2, 0.9])
def test_mahalanobis_noise_has_its_law_in_the_mahalanobis_norm(
    oblong: Space, weight: float
) -> None:
    made = Mahalanobis(weight)
    noise = made.draw(stream(0, "m"), N, 3) @ made.shape(oblong).T
    covariance = np.cov(oblong.vectors.T.astype(float))
    regular = weight * covariance * 3 / np.trace(covariance) + (1 - weight) * np.eye(3)
    length = np.sqrt(np.einsum("ni,ij,nj->n", noise, np.linalg.inv(regular), noise))
    assert stats.kstest(length, stats.gamma(3).cdf).pvalue > FALSE_ALARM
    np.testing.assert_allclose(made.distance(oblong, noise, np.zeros_like(noise)), length)
    if weight == 0.9:
        assert noise[:, 0].std() > 3 * noise[:, 1].std()


def test_mahalanobis_with_weight_0_is_t2t(plane: Space) -> None:
    released = [
        made.sampler(plane, 2.0)(plane.vectors, made.draw(stream(0, "w"), 12, 2))
        for made in (Mahalanobis(0.0), word_mechanism("t2t"))
    ]
    np.testing.assert_array_equal(*released)


def laplace_cell(low: float, high: float) -> float:
    """Of noise with density ½·exp(−|z|), the mass between two ends."""
    return float(stats.laplace.cdf(high) - stats.laplace.cdf(low))


def test_t2t_on_a_line_has_the_mass_of_its_cells(line: Space) -> None:
    eta = 1.5
    made = word_mechanism("t2t")
    vectors = np.repeat(line.vectors[:1], N, axis=0)
    counts = np.bincount(made.sampler(line, eta)(vectors, made.draw(stream(0, "l"), N, 1)))
    ends = eta * np.array([-np.inf, 0.5, 1.5, np.inf])
    law = [laplace_cell(*pair) for pair in pairwise(ends)]
    assert stats.chisquare(counts, N * np.array(law)).pvalue > FALSE_ALARM


def test_vickrey_follows_its_formula_from_the_noisy_vector_alone(plane: Space) -> None:
    """A replay of the definition, and the share of second words that it expects."""
    eta, made = 2.0, Vickrey(0.3)
    vectors = np.repeat(plane.vectors, 500, axis=0)
    draws = made.draw(stream(0, "v"), len(vectors), 2)
    released = made.sampler(plane, eta)(vectors, draws)
    noisy = vectors + draws[:, :2] / eta
    distances = np.linalg.norm(noisy[:, None] - plane.vectors, axis=2)
    order = distances.argsort(axis=1)
    one, two = (np.take_along_axis(distances, order[:, [i]], 1)[:, 0] for i in (0, 1))
    nearest = 0.7 * two / (0.3 * one + 0.7 * two)
    is_first = released == order[:, 0]
    assert (is_first | (released == order[:, 1])).all()
    error = np.sqrt((nearest * (1 - nearest)).sum())
    assert abs(is_first.sum() - nearest.sum()) < 5 * error  # 5 sigma: 6e-7


@pytest.mark.parametrize(("threshold", "place"), [(0.0, 0), (1.0, 1)])
def test_vickrey_at_its_ends_takes_the_first_or_the_second(
    plane: Space, threshold: float, place: int
) -> None:
    made = Vickrey(threshold)
    draws = made.draw(stream(0, "v"), 12, 2)
    released = made.sampler(plane, 2.0)(plane.vectors, draws)
    noisy = plane.vectors + draws[:, :2] / 2
    order = np.linalg.norm(noisy[:, None] - plane.vectors, axis=2).argsort(axis=1)
    np.testing.assert_array_equal(released, order[:, place])


@pytest.mark.parametrize("name", ["t2t", "vickrey", "rank-neighbours"])
def test_the_only_word_stays(name: str) -> None:
    made, alone = word_mechanism(name), space_of(np.ones((1, 2)))
    assert (made.sampler(alone, 1.0)(alone.vectors, made.draw(stream(0), 1, 2)) == 0).all()


def test_rank_neighbours_are_geometric_in_the_rank(plane: Space) -> None:
    """At an η without noise the pivot is the word itself."""
    made, eta = word_mechanism("rank-neighbours", c=2e-7), 1e6
    vectors = np.repeat(plane.vectors[4:5], N, axis=0)
    counts = np.bincount(
        made.sampler(plane, eta)(vectors, made.draw(stream(0, "r"), N, 2)), minlength=12
    )
    by_rank = euclidean(plane.vectors, plane.vectors[4]).argsort()
    law = np.exp(-0.2 * np.arange(12))
    assert stats.chisquare(counts[by_rank], N * law / law.sum()).pvalue > FALSE_ALARM
