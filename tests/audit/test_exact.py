"""Exact laws of outcomes, against draws and by hand."""

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from rapt.audit import FALSE_ALARM
from rapt.audit.cases import points
from rapt.audit.exact import (
    LAWS,
    MOST,
    STEP,
    deviates,
    differs,
    exact_law,
    p_of,
    smallest_excess,
)
from rapt.privacy.mechanisms import Space, mechanism

TABLE = points(8)
SPACE = Space(TABLE.vectors[:12], TABLE.frequency[:12])
WITH = {"custext": {"size": 4}}


@pytest.mark.parametrize("name", LAWS)
def test_outcomes_have_the_exact_law(name: str) -> None:
    kind = mechanism(name, **WITH.get(name, {}))
    law = exact_law(kind, SPACE, 3.0)
    assert law is not None
    np.testing.assert_allclose(law.sum(axis=1), 1)
    rng, n = np.random.default_rng(0), 20_000
    for row in (0, 11):
        draws = kind.draw(rng, n, 8)
        rows = kind.sampler(SPACE, 3.0)(np.repeat(SPACE.vectors[[row]], n, axis=0), draws)  # type: ignore[attr-defined]
        found = np.bincount(rows, minlength=12)
        seen = law[row] > 0
        assert not found[~seen].any()
        assert chisquare(found[seen], n * law[row][seen]).pvalue > FALSE_ALARM
        assert p_of(found, law[row]) > FALSE_ALARM
        assert p_of(found, np.roll(law[row], 1)) < FALSE_ALARM


@pytest.mark.parametrize("name", LAWS)
def test_another_law_deviates(name: str) -> None:
    kind = mechanism(name, **WITH.get(name, {}))
    law = exact_law(kind, SPACE, 3.0)
    assert law is not None
    off = deviates(kind, SPACE, 3.0, law)
    assert [off(factor) for factor in (1.0, 1.2, 0.8)] == [False, True, True]


def test_an_exact_p_value_is_at_most_uniform() -> None:
    rng, law, level, audits = np.random.default_rng(0), np.array([0.7, 0.2, 0.1]), 0.2, 2000
    alarms = sum(p_of(rng.multinomial(500, law), law) < level for _ in range(audits))
    assert binomtest(alarms, audits, level, "greater").pvalue > FALSE_ALARM


def test_a_law_differs_from_another_if_their_outcomes_do_99_times_of_100() -> None:
    rng, law, level = np.random.default_rng(0), np.array([0.7, 0.2, 0.1]), 1e-6
    found = {}
    for share in (0.70, 0.72, 0.74, 0.76, 0.78):
        other = np.array([share, 0.9 - share, 0.1])
        alarms = [p_of(rng.multinomial(4000, other), law) < level for _ in range(400)]
        found[share] = np.mean(alarms)
        if differs(law, other, 4000, level):
            assert binomtest(sum(alarms), 400, 0.99, "less").pvalue > FALSE_ALARM
    assert not differs(law, law, 4000, level)
    assert found[0.70] == 0
    assert differs(law, np.array([0.78, 0.12, 0.1]), 4000, level)


@pytest.mark.parametrize("least", [1.0005, 1.15, 7.3, 2 * MOST])
def test_the_smallest_excess_is_found_to_a_step(least: float) -> None:
    found = smallest_excess(lambda factor: factor >= least)
    assert found is None if least > MOST else found and least <= found <= least * STEP
