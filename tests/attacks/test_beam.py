"""The likeliest path, against all paths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rapt.attacks.bigrams import Beam, Bigrams, Rows

V = 5
TEXTS = [np.array(text) for text in ([0, 1, 2], [0, 1, -1], [3, 1, 2, 0], [4])]
BIGRAMS = Bigrams.of(TEXTS, np.full(V, 1 / V))
EDGE = V + 1
PLACE = st.lists(st.integers(0, V), min_size=1, max_size=3, unique=True)


def total(path: tuple[int, ...], weight: float) -> float:
    """The bigrams' part of a path's score, by the definition of P(v|w)."""
    steps = zip((EDGE, *path), (*path, EDGE), strict=True)
    single = BIGRAMS.single
    return weight * sum(
        np.log(BIGRAMS.pairs[[w]][:, [v]].toarray()[0, 0] + BIGRAMS.backoff[w] * single[v])
        - np.log(single[v])
        for w, v in steps
    )


@settings(deadline=None)  # the machine may be busy
@given(st.lists(PLACE, min_size=1, max_size=4), st.floats(0, 2), st.data())
def test_no_path_is_better(places: list[list[int]], weight: float, data: st.DataObject) -> None:
    scores = [data.draw(arrays(float, len(place), elements=st.floats(-9, 0))) for place in places]
    numbers = [np.array(place) for place in places]
    found = tuple(Beam(BIGRAMS, weight)(list(zip(numbers, scores, strict=True))))
    own = [dict(zip(p, s.tolist(), strict=True)) for p, s in zip(places, scores, strict=True)]

    def score(path: tuple[int, ...]) -> float:
        return sum(of[state] for of, state in zip(own, path, strict=True)) + total(path, weight)

    assert score(found) == pytest.approx(max(map(score, product(*places))), abs=1e-9)


def test_a_neighbour_decides_between_equals() -> None:
    """After 0 stands 1; without its weight the first candidate wins."""
    places: list[tuple[Rows, np.ndarray]] = [
        (np.array([0]), np.zeros(1)),
        (np.array([3, 1]), np.log([0.5, 0.5])),
    ]
    assert [Beam(BIGRAMS, weight)(places) for weight in (0.0, 0.5)] == [[0, 3], [0, 1]]
    assert Beam(BIGRAMS, 1.0)([]) == []
