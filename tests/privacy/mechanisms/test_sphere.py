"""Laws on the sphere, by their closed forms. Each statistical test: false alarms below 1e-6."""

import numpy as np
import pytest
from scipy import stats

from rapt.privacy.mechanisms import Purkayastha, Space, VonMisesFisher
from rapt.privacy.mechanisms.sphere import DEPTH, AngleLaw, Directional, OnSphere, angle_law, unit
from rapt.privacy.streams import stream
from rapt.utils.errors import RaptError

FALSE_ALARM = 1e-6
EVEN = (np.arange(200_000) + 0.5) / 200_000  # uniform numbers
DIRECTIONAL: list[type[Directional]] = [VonMisesFisher, Purkayastha]


def mean_cosine(kind: type[Directional], kappa: float, dimension: int) -> float:
    return float(np.cos(angle_law(kind, kappa, dimension)(EVEN)).mean())


@pytest.mark.parametrize("kappa", [0.01, 1.0, 2.0, 30.0])
def test_the_mean_cosine_is_the_closed_form_in_three_dimensions(kappa: float) -> None:
    exact = 1 / np.tanh(kappa) - 1 / kappa
    assert mean_cosine(VonMisesFisher, kappa, 3) == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("kappa", [0.01, 2.0, 50.0])
def test_purkayastha_s_constant_is_the_closed_form_in_three_dimensions(kappa: float) -> None:
    """∫ exp(−κθ)·sin θ dθ = (1 + exp(−κπ)) / (1 + κ²); at κ = 2 it is 0.2003734."""
    exact = np.log1p(np.exp(-kappa * np.pi)) - np.log1p(kappa**2)
    assert angle_law(Purkayastha, kappa, 3).log_mass == pytest.approx(exact, abs=1e-5)


def test_purkayastha_s_angle_is_a_truncated_exponential_in_the_plane() -> None:
    exact = -np.log1p(-EVEN * -np.expm1(-2 * np.pi)) / 2
    np.testing.assert_allclose(angle_law(Purkayastha, 2.0, 2)(EVEN), exact, rtol=1e-4)


@pytest.mark.parametrize(
    ("dimension", "kappa", "vmf", "purkayastha"),
    [
        (16, 10, 0.49, 0.54),
        (16, 100, 0.93, 0.99),
        (384, 10, 0.026, 0.026),
        (384, 100, 0.245, 0.252),
        (384, 384, 0.62, 0.71),
        (384, 1000, 0.83, 0.93),
        (384, 3000, 0.94, 0.99),
    ],
)
def test_what_is_left_of_a_direction(
    dimension: int, kappa: float, vmf: float, purkayastha: float
) -> None:
    """E cos θ, computed by others: κ has to be of the order of the dimension."""
    near = {"abs": 0.0055 if vmf > 0.03 else 0.0005}
    assert mean_cosine(VonMisesFisher, kappa, dimension) == pytest.approx(vmf, **near)
    assert mean_cosine(Purkayastha, kappa, dimension) == pytest.approx(purkayastha, **near)


@pytest.mark.parametrize("kind", DIRECTIONAL)
@pytest.mark.parametrize("dimension", [2, 3, 16, 384, 768, 5000])
def test_the_table_is_as_close_to_the_law_as_stated(
    kind: type[Directional], dimension: int
) -> None:
    """Wherever 53 bits reach, for tiny and for huge κ, also where the density underflows."""
    for kappa in (1e-300, 1e-9, 1.0, 50.0, 1000.0, 1e6, 1e12, 1e250):
        law = AngleLaw(kind, kappa, dimension)
        middle = (law._at[1:] + law._at[:-1]) / 2
        ends = law._density(law._at)
        reached = np.maximum(ends[1:], ends[:-1]) > ends.max() - 37
        apart = np.abs(law._density(middle) - (ends[1:] + ends[:-1]) / 2)[reached]
        assert apart.max() < 1e-4
        # The grid ends far below what is reached, or at a pole.
        assert max(ends[0], ends[-1]) < ends.max() - DEPTH + 1
        angles = law(np.array([0.0, 0.5, 1 - 2.0**-53]))
        assert np.isfinite(angles).all() and (np.diff(angles) >= 0).all()
        assert angles[0] >= 0 and angles[-1] <= np.pi


@pytest.mark.parametrize("kind", DIRECTIONAL)
def test_released_directions_have_the_law_around_any_direction(kind: type[Directional]) -> None:
    """Angle by its law, the rest uniform at a right angle, in ten dimensions."""
    made, own = kind(), unit(np.arange(1.0, 11)[None])
    draws = made.draw(stream(0, kind.name), 20_000, 10)
    released = made.represent(own, draws, 12.0)
    np.testing.assert_allclose(np.linalg.norm(released, axis=1), 1, rtol=1e-12)
    angle = np.arccos(released @ own[0])
    np.testing.assert_allclose(angle, angle_law(kind, 12.0, 10)(draws[:, 0]), rtol=1e-6)
    aside = unit(released - np.cos(angle)[:, None] * own)
    axis = unit(np.eye(10)[:1] - own[0, 0] * own)
    uniform = stats.beta(4, 4).cdf((1 + aside @ axis[0]) / 2)  # of nine dimensions
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM


@pytest.mark.parametrize("kind", DIRECTIONAL)
def test_no_released_direction_tells_more_than_the_bound(
    kind: type[Directional], plane: Space
) -> None:
    """Of random triples, and in the direction in which the loss is greatest."""
    rng = np.random.default_rng(0)
    one, other, seen = (unit(rng.standard_normal((3000, 5))) for _ in range(3))
    worst = one - other if kind is VonMisesFisher else one
    kappa, made = 3.0, kind()
    assert isinstance(made, OnSphere)
    allowed = made.claim.loss(kappa, 1.0) * made.distance(plane, one, other)

    def loss(seen: np.ndarray) -> np.ndarray:
        logs = [
            kind.exponent(kappa, np.arccos((x * seen).sum(1).clip(-1, 1))) for x in (one, other)
        ]
        return np.asarray(logs[0] - logs[1])

    assert (loss(seen) <= allowed + 1e-9).all()
    np.testing.assert_allclose(loss(unit(worst)), allowed, rtol=1e-6)


def test_one_dimension_has_no_directions() -> None:
    made = VonMisesFisher()
    with pytest.raises(RaptError, match=r"^mechanism vmf: got vectors of 1 dimension, expected 2"):
        made.represent(np.ones((1, 1)), made.draw(stream(0), 1, 1), 1.0)


def test_a_vector_of_length_0_becomes_a_public_direction() -> None:
    np.testing.assert_array_equal(unit(np.array([[0.0, 0], [3, 4]])), [[1, 0], [0.6, 0.8]])
