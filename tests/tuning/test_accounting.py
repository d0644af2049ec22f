"""What a private training spends, against values of the method's page and in closed form."""

from math import exp

import numpy as np
import pytest
from scipy.stats import norm

from rapt.tuning.accounting import noise_for, spent
from rapt.utils.errors import RaptError


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "epsilon"),
    [
        (1.0, 0.01, 1000, 1.8282),
        (0.8, 256 / 67349, 789, 1.1300),
        (1.1, 256 / 60000, 14062, 2.3817),
        (1.0, 1.0, 1, 4.3772),
    ],
)
def test_the_reference_values_are_found(
    noise: float, rate: float, steps: int, epsilon: float
) -> None:
    """At δ = 1e-5, by dp-accounting 0.6; the last is exact for the Gaussian mechanism."""
    assert spent(noise, rate, steps, 1e-5) == pytest.approx(epsilon, abs=1e-4)


def test_every_text_at_every_step_is_one_gaussian() -> None:
    """T steps without sampling are as one with noise σ / √T."""
    assert spent(5.0, 1, 25, 1e-5) == pytest.approx(spent(1.0, 1, 1, 1e-5), abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.05, 8.0])
def test_the_noise_spends_what_is_allowed_and_hardly_less(epsilon: float) -> None:
    found = spent(noise_for(epsilon, 1e-5, 0.1, 100), 0.1, 100, 1e-5)
    assert 0.97 * epsilon < found <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("noise", [0.7, 2.0, 8.0])
def test_a_text_in_the_place_of_another_is_a_gaussian_of_twice_the_sensitivity(
    noise: float,
) -> None:
    """At every step and without sampling; its δ(ε) is exact (Balle and Wang, 2018)."""
    shift, found = 2 / noise, spent(noise, 1, 1, 1e-5, replaced=True)
    assert found == pytest.approx(spent(noise / 2, 1, 1, 1e-5), abs=1e-3)
    delta = norm.cdf(shift / 2 - found / shift)
    delta -= exp(found) * norm.cdf(-shift / 2 - found / shift)
    assert delta == pytest.approx(1e-5, rel=2e-3)


# Both gradients of a text, within the norm 1 of a plane: the first pair dominates all others.
PAIRS = [((1, 0), (-1, 0)), ((1, 0), (0, 1)), ((1, 0), (0, 0)), ((0.6, 0.8), (-0.6, 0.3))]


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_no_two_gradients_are_told_apart_better_than_opposite_ones_of_the_norm(
    rate: float,
) -> None:
    """δ of a sampled step at the accountant's ε, by the integral over a plane."""
    noise, delta = 1.5, 1e-3
    epsilon = spent(noise, rate, 1, delta, replaced=True)
    axis = np.linspace(-12, 12, 1201)
    at = np.stack(np.meshgrid(axis, axis), -1)

    def density(mean: tuple[float, float]) -> np.ndarray:
        return np.prod(norm.pdf(at, mean, noise), -1)

    for pair in PAIRS:
        one, other = ((1 - rate) * density((0, 0)) + rate * density(to) for to in pair)
        both = [
            np.maximum(a - exp(epsilon) * b, 0).sum() * (axis[1] - axis[0]) ** 2
            for a, b in ((one, other), (other, one))
        ]
        if pair == PAIRS[0]:
            assert both == pytest.approx([delta, delta], rel=5e-3)
        else:
            assert max(both) < 0.9 * delta


@pytest.mark.slow
def test_a_small_epsilon_has_its_noise() -> None:
    """Rényi divergences of an order below 512 say of no noise that it suffices."""
    law = (5e-4, 200, 1e-6)
    found = noise_for(0.01, 1e-6, *law[:2])
    assert spent(found, *law) <= 0.01 < spent(found / 1.5, *law)


@pytest.mark.slow
def test_the_noise_of_one_text_more_or_less_is_too_little_for_a_replaced_one() -> None:
    """The example of docs/private-training.md."""
    law = (1e-4, 0.1, 50)
    found = [noise_for(3, *law, replaced=replaced) for replaced in (False, True)]
    assert found == pytest.approx([1.21, 1.73], rel=5e-3)
    spends = [spent(noise, 0.1, 50, 1e-4, replaced=True) for noise in found]
    assert spends == pytest.approx([4.72, 3], rel=1e-2)
    assert spends[1] <= 3 * (1 + 1e-6)
    assert noise_for(500, *law, replaced=True) == noise_for(500, *law)  # the least that is used


def test_an_epsilon_that_no_noise_reaches_is_one_line() -> None:
    with pytest.raises(RaptError, match=r"private.epsilon: got 0.001 at delta 1e-05, which 1000"):
        noise_for(0.001, 1e-5, 0.5, 1000)
