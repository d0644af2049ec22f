"""Gaussian noise, by closed forms. Each statistical test: false alarms below 1e-6."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from rapt.privacy.mechanisms import Gaussian, mechanism
from rapt.privacy.mechanisms.gaussian import gaussian_delta, gaussian_mu
from rapt.privacy.streams import stream
from rapt.utils.errors import RaptError

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("epsilon", "deviation"),
    [
        *((1, 3.7306), (5, 0.8919), (8, 0.6002), (250, 0.05394), (500, 0.03614)),
        *((1000, 0.02458), (2500, 0.01502)),
    ],
)
def test_gaussian_deviations_are_those_of_the_analytic_law(
    epsilon: float, deviation: float
) -> None:
    """σ/Δ at δ = 1e-5, computed by others; nothing overflows."""
    assert 1 / gaussian_mu(epsilon, 1e-5) == pytest.approx(deviation, rel=5e-4)
    assert Gaussian().size(epsilon) == pytest.approx(2 * deviation, rel=5e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-13, 1e-14), (1e-300, 1e-300), (0.0, 1e-14)])
def test_below_what_rounding_tells_the_deviation_is_that_of_epsilon_0(
    epsilon: float, delta: float
) -> None:
    """δ(0) = 2·Φ(μ/2) − 1, of a small μ μ·φ(0)."""
    assert gaussian_mu(epsilon, delta) * stats.norm.pdf(0) == pytest.approx(delta, rel=1e-9, abs=0)


def epsilon_of(mu: float) -> float:
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - 1e-5, 0.0, 1e6, rtol=1e-12))


@pytest.mark.parametrize(
    ("claimed", "holds"), [(8, 7.9), (250, 1550), (1000, 22_181), (2500, 135_336)]
)
def test_the_classical_deviation_does_not_hold_for_a_large_epsilon(
    claimed: float, holds: float
) -> None:
    mu = claimed / np.sqrt(2 * np.log(1.25e5))
    assert epsilon_of(mu) == pytest.approx(holds, rel=2e-3)


@pytest.mark.parametrize("eta", [1e-300, 1e-6, 1e6, 1e20])
def test_gaussian_noise_is_finite_for_tiny_and_huge_eta(eta: float) -> None:
    made = Gaussian()
    assert 0 < made.size(eta) < 1e6
    noise = made.represent(np.zeros((1, 3)), made.draw(stream(0), 1, 3), eta)
    assert np.isfinite(noise).all()


def test_gaussian_noise_is_normal_and_its_delta_is_its_claim_s() -> None:
    made = mechanism("gaussian", delta=1e-3)
    assert isinstance(made, Gaussian)
    assert made.claim.delta == 1e-3 and "+ 0.001 for all" in made.claim.law("8")
    noise = made.represent(np.zeros((1, 50)), made.draw(stream(1), 400, 50), 8.0)
    scaled = noise.ravel() * gaussian_mu(8.0, 1e-3) / 2
    assert stats.kstest(scaled, "norm").pvalue > FALSE_ALARM


def test_an_eta_beyond_float64_is_one_line() -> None:
    with pytest.raises(RaptError, match=r"^eta: got 1e\+300, expected at most 1e\+20 with gauss"):
        Gaussian().size(1e300)
