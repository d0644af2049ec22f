"""Approximate scores are within their bound."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rapt.privacy.neighbours.first_pass import GROUP, Float32Pass
from tests.privacy.neighbours.tables import KINDS, table


@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from([0.0, 1.0, 30.0]))
@settings(max_examples=30)
def test_scores_are_within_their_bound_and_the_bound_is_not_idle(
    seed: int, kind: str, noise: float
) -> None:
    rng = np.random.default_rng(seed)
    vectors = table(rng, 1100, 24, kind)
    queries = vectors[:16] + noise * rng.standard_normal((16, 24))
    scores = Float32Pass(vectors).scores(queries)
    squares = np.square(vectors.astype(np.float64)[None] - queries[:, None]).sum(axis=2)
    true = np.square(queries).sum(axis=1)[:, None] / 2 - squares / 2
    which, seen = np.arange(16), 0
    for tile in scores.tiles:
        for group in range(tile.maxima.shape[1]):
            groups = np.full(16, group)
            given = tile.of_groups(which, groups)
            rows = tile.rows(groups[:, None], np.arange(GROUP))
            within = rows[0] < len(vectors)
            assert (given[:, ~within] == -np.inf).all()
            np.testing.assert_array_equal(given.max(axis=1), tile.maxima[:, group])
            off = np.abs(given[:, within] - true[which[:, None], rows[:, within]])
            assert (off <= scores.error[:, None]).all()
            seen += within.sum()
    assert seen == len(vectors)
    spread = np.linalg.norm(vectors, axis=1).max() * np.linalg.norm(queries, axis=1)
    if kind == "normal":
        share = scores.error / np.maximum(spread, spread.mean())
        assert np.median(share) <= 0.03
        assert (share <= 0.2).all()
