"""How many labels of one's own a model is worth."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.analysis.break_even import Learning, break_even, learning
from rapt.results.cells import Metric


def metric(mean: float, half: float = 0.02) -> Metric:
    return Metric(mean=mean, sd=None, n=1, low=mean - half, high=mean + half)


CURVE = Learning([25, 100, 400], [metric(0.6), metric(0.7), metric(0.8)])


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        (0.5, (0.0, 0.0, 0.0)),
        (0.65, (50.0, 25 * 4**0.3, 25 * 4**0.7)),
        (0.7, (100.0, 25 * 4**0.8, 100 * 4**0.2)),
        (0.79, (100 * 4**0.9, 100 * 4**0.7, math.inf)),
        (0.9, (math.inf, math.inf, math.inf)),
    ],
)
def test_between_the_sizes_it_is_a_line_over_the_logarithm(
    accuracy: float, expected: tuple[float, float, float]
) -> None:
    """The model is known for sure, so the interval is where the curve's ends reach it."""
    assert break_even(CURVE, metric(accuracy, half=0.0)) == pytest.approx(expected)


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=6),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 0.1),
)
def test_a_better_model_is_worth_more_and_its_interval_holds_the_number(
    means: list[float], one: float, other: float, half: float
) -> None:
    curve = Learning([25 * 2**k for k in range(len(means))], [metric(m, half) for m in means])
    worse, better = (break_even(curve, metric(x, half)) for x in (min(one, other), max(one, other)))
    assert all(a <= b for a, b in zip(worse, better, strict=True))
    for found, low, high in (worse, better):
        assert low <= found * (1 + 1e-9) and found <= high * (1 + 1e-9)


def test_an_accuracy_that_falls_by_chance_does_not() -> None:
    """Fewer rows that happen to do better are pooled with more."""
    curve = Learning([25, 100, 400], [metric(0.6), metric(0.58), metric(0.8)])
    assert break_even(curve, metric(0.585))[0] == 0
    assert 100 < break_even(curve, metric(0.6))[0] < 400


def test_the_curve_ends_with_all_rows() -> None:
    metrics = {"accuracy_with_50": metric(0.6), "accuracy": metric(0.7), "accuracy_both": metric(1)}
    assert learning(metrics, 80) == Learning([50, 80], [metric(0.6), metric(0.7)])
    assert learning({"accuracy": metric(0.7)}, 80) is None  # a cell of an earlier version
