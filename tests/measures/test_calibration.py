"""Calibration over the tiny random table of conftest.py."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rapt.measures import calibration
from rapt.measures.calibration import Curve, critical_etas, curve_over, largest, simulated_curve
from rapt.privacy.base import PreparedText
from rapt.privacy.channel import noise_of
from rapt.privacy.mechanisms import PCT2T, T2T, Vickrey, WordMechanism
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable

How = tuple[WordMechanism, tuple[str, ...] | None]
BOTH: list[How] = [(T2T(), None), (PCT2T(), ("noun", "verb"))]
DRAWS = 40


def made(table: EmbeddingTable, how: How, eta: float) -> Privatizer:
    return Privatizer(table=table, mechanism=how[0], eta=eta, categories=how[1])


def kept(table: EmbeddingTable, how: How, rows: np.ndarray, eta: float) -> np.ndarray:
    """Which draws leave their word as it is, by privatizing: bool (n, draws)."""
    privatizer = made(table, how, eta)
    names = [table.words[row] for row in rows]
    texts = (
        PreparedText([word] * DRAWS, [group] * DRAWS, partial(noise_of, 0, word))
        for word, group in zip(names, privatizer.groups_of_rows(rows), strict=True)
    )
    released = privatizer.privatize(texts)
    return np.array([[a == w for a in after] for w, after in zip(names, released, strict=True)])


def over(table: EmbeddingTable, mechanism: WordMechanism, draws: int = DRAWS) -> Curve:
    return curve_over(made(table, (mechanism, None), np.inf), np.arange(18), draws, 0)


def eta_for(found: Curve, share: float) -> float:
    """The largest η at which this share of the words is replaced in the mean."""
    return largest(lambda eta: float(found.shares(eta).mean()) >= share, found.etas)


def altered(table: EmbeddingTable, vectors: np.ndarray) -> EmbeddingTable:
    other = EmbeddingTable(table.folder)
    other.vectors = vectors.astype(np.float32)
    return other


@pytest.mark.parametrize("how", BOTH)
@given(eta=st.floats(0.02, 200))
@settings(max_examples=40)
def test_each_draw_keeps_its_word_exactly_from_its_critical_eta_on(
    table: EmbeddingTable, how: How, eta: float
) -> None:
    rows = np.arange(14)
    critical = critical_etas(made(table, how, np.inf), rows, DRAWS, 0)
    assert (kept(table, how, rows, eta) == (eta >= critical)).all()


@pytest.mark.parametrize("how", BOTH)
def test_a_draw_turns_at_its_critical_eta(table: EmbeddingTable, how: How) -> None:
    rows = np.arange(14)
    critical = critical_etas(made(table, how, np.inf), rows, DRAWS, 0)
    turning = np.argwhere(critical > 0)  # some noise keeps its word at whatever scale
    assert len(turning) > 0.8 * critical.size
    for word, draw in turning[::97]:
        eta = critical[word, draw]
        below, above = (kept(table, how, rows, eta * (1 + sign * 1e-9)) for sign in (-1, 1))
        assert (below[word, draw], above[word, draw]) == (False, True)


def test_of_words_with_one_vector_the_lower_row_is_released(table: EmbeddingTable) -> None:
    vectors = np.array(table.vectors)
    vectors[5] = vectors[2]
    twins, rows = altered(table, vectors), np.arange(18)
    critical = critical_etas(made(twins, BOTH[0], np.inf), rows, DRAWS, 0)
    assert np.isinf(critical[5]).all()
    assert np.isfinite(np.delete(critical, 5, axis=0)).all()
    for eta in (0.1, 3.0, 1e6):
        assert (kept(twins, BOTH[0], rows, eta) == (eta >= critical)).all()
    whole = over(twins, T2T())
    assert np.isinf(eta_for(whole, 1 / 20))  # one word of 18 is always replaced


@given(
    st.integers(0, 2**32),
    st.sampled_from([1.0, 1e-2, 1e-4]),
    st.sampled_from([1.0, 1e-20, 1e20]),
    st.integers(1, 30),
)
@settings(max_examples=40)
def test_critical_etas_are_the_definition_in_float64(
    table: EmbeddingTable, seed: int, spread: float, scale: float, batch: int
) -> None:
    """Also of words so close that float32 cannot tell them apart, and in any batches."""
    rng = np.random.default_rng(seed)
    near = table.vectors[:9] + spread * rng.standard_normal((9, 8))
    close = altered(table, scale * np.concatenate([table.vectors[:9], near]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "SCORES", 18 * DRAWS * batch)
        patch.setattr(calibration, "PAIRS", batch)
        found = critical_etas(made(close, BOTH[0], np.inf), np.arange(18), DRAWS, 0)
    vectors = close.vectors.astype(np.float64)
    for w in range(18):
        noise = T2T().draw(noise_of(0, close.words[w]), DRAWS, 8)
        offsets = np.delete(vectors, w, axis=0) - vectors[w]
        ratio = 2 * noise @ offsets.T / np.square(offsets).sum(axis=1)
        np.testing.assert_allclose(found[w], ratio.max(axis=1).clip(min=0), rtol=1e-9)


def test_the_largest_eta_is_the_last_that_protects_enough(table: EmbeddingTable) -> None:
    exact = over(table, T2T())
    for share in (0.9, 0.5, 0.1):
        eta = eta_for(exact, share)
        after = exact.etas[np.searchsorted(exact.etas, eta) + 1]
        assert exact.shares(eta).mean() >= share > exact.shares(after).mean()


def test_bisection_over_simulations_finds_the_same_eta(table: EmbeddingTable) -> None:
    exact = over(table, T2T())
    searched = simulated_curve(partial(made, table, BOTH[0]), exact.rows, DRAWS, 0)
    for share in (0.8, 0.3):
        one, other = eta_for(exact, share), eta_for(searched, share)
        after = exact.etas[np.searchsorted(exact.etas, one) + 1]
        assert other < after
        assert other * calibration.STEP**2 > one
        assert (searched.kept(other) == exact.kept(other)).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "estimate", None)  # all of it is known by now
        assert eta_for(searched, 0.3) == other


def test_a_mechanism_without_closed_form_is_calibrated_too(table: EmbeddingTable) -> None:
    found = over(table, Vickrey())
    eta = eta_for(found, 0.8)
    assert found.shares(eta).mean() >= 0.8 > found.shares(eta * 1.1).mean()


def test_what_no_eta_gives_is_said(table: EmbeddingTable) -> None:
    assert np.isinf(eta_for(over(table, T2T(), draws=5), 0.0))
