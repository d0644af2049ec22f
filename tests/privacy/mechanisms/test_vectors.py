"""Released vectors. Each statistical test raises a false alarm with p < 1e-6."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from rapt.privacy.mechanisms import Space, TextVectorMechanism, VectorMechanism, mechanism
from rapt.privacy.mechanisms.vectors import Adept
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from tests.conftest import NOUNS

FALSE_ALARM = 1e-6
N, ETA = 20_000, 4.0


def vector_mechanism(name: str, **given: float) -> VectorMechanism:
    made = mechanism(name, **given)
    assert isinstance(made, VectorMechanism)
    return made


def test_token_representation_is_the_vector_plus_noise_on_a_grid() -> None:
    made = vector_mechanism("token-representation", grid=2.0**-10)
    vectors = np.random.default_rng(0).standard_normal((N, 8)).astype(np.float32)
    released = made.represent(vectors, made.draw(stream(0, "t"), N, 8), ETA)
    assert released.shape == (N, 8)
    np.testing.assert_array_equal(released * 2**10, np.round(released * 2**10))
    assert (released.astype(np.float32) == released).all()
    radius = np.linalg.norm(released - vectors, axis=1)
    # The grid moves a radius by less than 2⁻¹¹·√8: nothing at this number of draws.
    assert stats.kstest(radius, stats.gamma(8, scale=1 / ETA).cdf).pvalue > FALSE_ALARM


def test_the_grid_takes_the_last_bits() -> None:
    """Inputs that differ in their last bit, under equal noise, are released alike."""
    made = vector_mechanism("token-representation")
    one = np.full((500, 8), 0.3)
    draws = made.draw(stream(0, "b"), 500, 8)
    both = [made.represent(x, draws, ETA) for x in (one, np.nextafter(one, 1))]
    np.testing.assert_array_equal(*both)
    assert not np.signbit(both[0][both[0] == 0]).any()


def test_sequence_representation_is_one_noisy_mean(table: EmbeddingTable) -> None:
    made = vector_mechanism("sequence-representation", grid=2.0**-20)
    words = NOUNS[:5]
    assert isinstance(made, TextVectorMechanism)
    encoded = made.encode([words], table)
    np.testing.assert_allclose(encoded, table.embed(words).mean(axis=0, keepdims=True), rtol=1e-6)
    released = np.concatenate([made.release(encoded, stream(0, i), ETA) for i in range(4000)])
    radius = np.linalg.norm(released - encoded, axis=1)
    assert stats.kstest(radius, stats.gamma(8, scale=1 / ETA).cdf).pvalue > FALSE_ALARM


def test_adept_spends_the_square_root_of_the_dimension_times_its_epsilon(plane: Space) -> None:
    """Where the density ratio of opposite corners is constant, it is exp(ε·√d), not exp(ε)."""
    d, epsilon, made = 16, 1.0, Adept(clip=1.0)
    corner = np.full((1, d), 1 / np.sqrt(d))
    noise = made.draw(stream(0, "a"), 3, d)
    np.testing.assert_allclose(
        made.represent(5 * corner, noise[:1], epsilon) - corner, 2 * noise[:1] / epsilon
    )
    beyond = 2 * corner[0]
    logs = [stats.laplace(x, 2 / epsilon).logpdf(beyond).sum() for x in (corner[0], -corner[0])]
    np.testing.assert_allclose(logs[0] - logs[1], epsilon * np.sqrt(d))
    assert made.distance(plane, corner, -corner) == np.sqrt(d)
    assert made.claim.published
    assert made.claim.published.between(made, plane, corner, -corner) == 1


def test_split_and_denoise_draws_a_size_for_each_coordinate() -> None:
    """METHOD: at η 100 and 768 dimensions its noise is 123 long in place of 7.7."""
    made = mechanism("snd-as-coded")
    assert isinstance(made, VectorMechanism)
    noise = made.represent(np.zeros((200, 768)), made.draw(stream(0), 200, 768), 100.0)
    assert np.linalg.norm(noise, axis=1).mean() == pytest.approx(123, rel=0.01)
    few, eta = 5, 2.0
    drawn = made.draw(stream(1), 40_000, few)[:, 0] / eta

    def upto(z: Any) -> Any:
        """∫ η / (2(d - 1))·P[Gamma(d - 1) > η|z|], by parts."""
        at, shape = eta * np.abs(z), few - 1
        tail = stats.gamma(shape).sf(at) * at / shape + stats.gamma(shape + 1).cdf(at)
        return 0.5 + np.sign(z) * tail / 2

    assert stats.kstest(drawn, upto).pvalue > 1e-6
    grid = np.linspace(0, 30, 400)[:, None]
    logs = np.array([made.log_density(np.zeros((1, few)), np.tile(z, (1, few)), eta) for z in grid])
    steps = -np.diff(logs[:, 0]) / few / np.diff(grid[:, 0])
    assert (steps > 0).all() and steps.max() < eta
    assert steps.max() > 0.9 * eta


def test_split_and_denoise_spends_its_eta_in_the_l1_norm() -> None:
    """In two dimensions the noise is Laplace's, whose loss is reached everywhere beyond."""
    made = mechanism("snd-as-coded")
    assert isinstance(made, VectorMechanism)
    one, other, far = np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]), np.array([[-2.0, -3.0]])
    loss = made.log_density(one, far, 3.0) - made.log_density(other, far, 3.0)
    assert loss == pytest.approx(made.claim.loss(3.0, 2.0))
    assert made.distance(Space(one.astype(np.float32), np.ones(1)), one, other) == 2.0
