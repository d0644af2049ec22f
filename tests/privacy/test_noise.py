"""The noise has the published law. Each statistical test raises a false alarm with p < 1e-6."""

import numpy as np
import pytest
from scipy import stats

from rapt.privacy.mechanisms.noise import spherical_noise
from rapt.privacy.streams import stream

FALSE_ALARM = 1e-6
N = 20_000


@pytest.mark.parametrize("dimension", [2, 8, 384])
@pytest.mark.parametrize("eta", [0.5, 75.0])
def test_radius_is_gamma_of_dimension(dimension: int, eta: float) -> None:
    n = N if dimension < 100 else 2_000
    radius = np.linalg.norm(spherical_noise(stream(0, "radius"), n, dimension) / eta, axis=1)
    assert stats.kstest(radius, stats.gamma(dimension, scale=1 / eta).cdf).pvalue > FALSE_ALARM


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


def test_streams_differ_by_every_name_and_repeat() -> None:
    def first(*names: str | int) -> float:
        return stream(*names).random()  # type: ignore[arg-type]

    names = [
        (0, 0, "t", "a"),
        (1, 0, "t", "a"),
        (0, 1, "t", "a"),
        (0, 0, "u", "a"),
        (0, 0, "t", "b"),
    ]
    draws = [first(*name) for name in names]
    assert len(set(draws)) == len(draws)
    assert draws == [first(*name) for name in names]
    # Names are separated: "a", "bc" is not "ab", "c".
    assert first(0, "a", "bc") != first(0, "ab", "c")
