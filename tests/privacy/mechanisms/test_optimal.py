import numpy as np
import pytest
from scipy import stats

from rapt.privacy.mechanisms import Space, word_mechanism
from rapt.privacy.mechanisms.optimal import ONE, is_private, optimal_channel
from rapt.privacy.streams import stream
from rapt.utils.errors import RaptError
from tests.privacy.mechanisms.conftest import space_of


def distances(space: Space) -> np.ndarray:
    vectors = space.vectors.astype(float)
    return np.linalg.norm(vectors[:, None] - vectors, axis=2)


@pytest.mark.parametrize("eta", [0.5, 2.0, 8.0, 30.0])
def test_the_rounded_channel_is_private_and_better_than_exponential(
    eta: float, plane: Space
) -> None:
    d, weights = distances(plane), optimal_channel(plane, eta)
    assert (weights.sum(axis=1) == ONE).all()
    assert is_private(weights, d, eta)
    exponential = np.exp(-eta / 2 * d)
    exponential /= exponential.sum(axis=1, keepdims=True)
    assert (weights / ONE * d).sum() < (exponential * d).sum()


def test_two_words_have_the_known_optimum() -> None:
    """Randomized response: the other word with probability 1 / (1 + e^(η·d))."""
    space = space_of(np.array([[0.0], [1.0]]))
    weights = optimal_channel(space, 1.0)
    np.testing.assert_allclose(weights[0, 1] / ONE, 1 / (1 + np.e), rtol=1e-4)


def test_the_check_notices_one_weight_too_many(plane: Space) -> None:
    d, weights = distances(plane), optimal_channel(plane, 2.0).copy()
    loss = np.log(weights[:, None] / weights[None]) - 2.0 * d[:, :, None]
    tight = np.unravel_index(loss.argmax(), loss.shape)
    weights[tight[0], tight[2]] *= 1.0001
    assert not is_private(weights, d, 2.0)
    weights[0, 0] = 0
    assert not is_private(weights, d, 2.0)


def test_words_come_out_by_their_weights(plane: Space) -> None:
    """False alarms: p < 1e-6."""
    made, n = word_mechanism("imola"), 20_000
    vectors = np.repeat(plane.vectors[:1], n, axis=0)
    released = made.sampler(plane, 2.0)(vectors, made.draw(stream(0, "o"), n, 2))
    law = n * optimal_channel(plane, 2.0)[0] / ONE
    counts = np.bincount(released, minlength=12)
    often = law > 5
    pooled = [np.append(x[often], x[~often].sum()) for x in (counts, law)]
    pooled = [x[:-1] if law[~often].sum() < 1 else x for x in pooled]
    pooled[1] *= pooled[0].sum() / pooled[1].sum()
    assert stats.chisquare(*pooled).pvalue > 1e-6


def test_duplicates_share_their_row(plane: Space) -> None:
    space = space_of(np.concatenate([plane.vectors, plane.vectors[:1]]))
    weights = optimal_channel(space, 2.0)
    np.testing.assert_array_equal(weights[0], weights[12])
    assert is_private(weights, distances(space), 2.0)


def test_larger_tables_are_refused() -> None:
    space = space_of(np.random.default_rng(0).standard_normal((61, 2)))
    with pytest.raises(RaptError, match="got 61 words in a group, expected at most 60"):
        word_mechanism("imola").sampler(space, 1.0)
