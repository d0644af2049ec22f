"""What a private training spends, against values of the method's page and in closed form."""

from __future__ import annotations

import pytest

from rapt.tuning.accounting import Accountant, noise_for, spent
from rapt.utils.errors import RaptError


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "rdp", "pld"),
    [
        (1.0, 0.01, 1000, 2.1014, 1.8282),
        (0.8, 256 / 67349, 789, 1.7970, 1.1300),
        (1.1, 256 / 60000, 14062, 2.5966, 2.3817),
        (1.0, 1.0, 1, 4.7285, 4.3772),
    ],
)
def test_both_accountants_find_the_reference_values(
    noise: float, rate: float, steps: int, rdp: float, pld: float
) -> None:
    """At δ = 1e-5, by dp-accounting 0.6; the last is exact for the Gaussian mechanism."""
    expected: dict[Accountant, float] = {"rdp": rdp, "pld": pld}
    for accountant, value in expected.items():
        assert spent(noise, rate, steps, 1e-5, accountant) == pytest.approx(value, abs=1e-4)


def test_every_text_at_every_step_is_one_gaussian() -> None:
    """T steps without sampling are as one with noise σ / √T."""
    assert spent(5.0, 1, 25, 1e-5) == pytest.approx(spent(1.0, 1, 1, 1e-5), abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_noise_spends_what_is_allowed_and_hardly_less(epsilon: float) -> None:
    found = spent(noise_for(epsilon, 1e-5, 0.1, 100), 0.1, 100, 1e-5)
    assert 0.97 * epsilon < found <= epsilon * (1 + 1e-6)


def test_an_epsilon_that_no_noise_reaches_is_one_line() -> None:
    with pytest.raises(RaptError, match=r"private.epsilon: got 0.001 at delta 1e-05, which 1000"):
        noise_for(0.001, 1e-5, 0.5, 1000)
