import numpy as np
import pytest
from scipy import stats

from rapt.privacy.mechanisms import Space, word_mechanism
from rapt.privacy.mechanisms.gumbel import _poisson, extent, published_scale
from rapt.privacy.streams import stream
from rapt.utils.errors import RaptError
from tests.privacy.mechanisms.conftest import space_of


def test_equals_a_plain_replay_of_the_definition(plane: Space) -> None:
    made, eta, n = word_mechanism("truncated-gumbel"), 200.0, 300
    draws = made.draw(stream(0, "g"), n, 2)
    released = made.sampler(plane, eta)(np.repeat(plane.vectors[:1], n, axis=0), draws)
    d = np.linalg.norm(plane.vectors.astype(float) - plane.vectors[0], axis=1)
    least, most = extent(plane)
    scale = published_scale(eta, 12, least, most)
    near = d.argsort()
    mass = stats.poisson(np.log(12)).pmf(np.arange(1, 13))
    cdf = stats.gumbel_r(scale=scale)
    for row, uniform in zip(released, draws, strict=True):
        k = 1 + int((np.cumsum(mass / mass.sum()) <= uniform[0]).sum())
        inside = cdf.cdf(-most) + uniform[1 : k + 1] * (cdf.cdf(most) - cdf.cdf(-most))
        assert row == near[(d[near[:k]] + cdf.ppf(inside)).argmin()]


def test_extent_is_that_of_all_pairs(plane: Space) -> None:
    pairs = np.linalg.norm(plane.vectors[:, None].astype(float) - plane.vectors, axis=2)
    off = pairs[~np.eye(12, dtype=bool)]
    np.testing.assert_allclose(extent(plane), (off.min(), off.max()))


def test_the_number_of_neighbours_is_a_truncated_poisson() -> None:
    law = stats.poisson(np.log(23_695)).pmf(np.arange(1, 81))
    np.testing.assert_allclose(_poisson(23_695), np.cumsum(law) / law.sum(), rtol=1e-9)
    assert _poisson(5)[-1] == pytest.approx(1)
    assert len(_poisson(5)) == 5


def test_an_eta_without_constants_is_refused(plane: Space) -> None:
    least, _ = extent(plane)
    needed = (3 + 2 * (1 + np.log(12))) / least
    line = f"expected a number above {needed:.4g} with truncated-gumbel on this table"
    with pytest.raises(RaptError, match=line):
        word_mechanism("truncated-gumbel").sampler(plane, 0.99 * needed)
    word_mechanism("truncated-gumbel").sampler(plane, 1.01 * needed)
    with pytest.raises(RaptError, match=r"^eta: got 20000, expected a number above inf"):
        word_mechanism("truncated-gumbel").sampler(space_of(np.ones((1, 2))), 2e4)  # no distance
