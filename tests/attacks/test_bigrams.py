"""Chains of words: marginals against enumeration, and the likeliest path against all paths."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rapt.attacks.bigrams import Beam, Bigrams, Rows

PRIOR = np.array([0.5, 0.3, 0.2])
S = len(PRIOR) + 2
UNKNOWN, EDGE = 3, 4
TEXTS = [[0, 1, 0], [1, 0], [-1, 0, 1, 1]]


def law(bigrams: Bigrams) -> np.ndarray:
    return bigrams.pairs.toarray() + np.outer(bigrams.backoff, bigrams.single)


def test_witten_and_bell_by_hand() -> None:
    bigrams = Bigrams.of(map(np.array, TEXTS), PRIOR)
    assert law(bigrams).sum(axis=1) == pytest.approx(1)
    # Twelve words and ends of four kinds; 0 stands four times and is followed by three kinds.
    full = np.array([0.5, 0.3, 0.2, 1 / 3, 1 / 3]) / (5 / 3)
    single = (np.array([4, 4, 0, 1, 3]) + 4 * full) / (12 + 4)
    assert bigrams.single == pytest.approx(single)
    assert law(bigrams)[0] == pytest.approx((np.array([0, 2, 0, 0, 2]) + 2 * single) / (4 + 2))
    assert law(bigrams)[2] == pytest.approx(single)  # it stands nowhere


@pytest.mark.parametrize("texts", [[], TEXTS], ids=["none", "some"])
@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_marginals_are_those_of_all_sequences(texts: list[list[int]], length: int) -> None:
    bigrams = Bigrams.of(map(np.array, texts), PRIOR)
    emissions = list(np.random.default_rng(length).random((length, S)))
    exact, chances = np.zeros((length, S)), law(bigrams)
    for states in product(range(S), repeat=length):
        chain = [EDGE, *states, EDGE]
        chance = np.prod([chances[w, v] for w, v in pairwise(chain)])
        chance *= np.prod([emission[v] for emission, v in zip(emissions, states, strict=True)])
        exact[range(length), states] += chance
    exact /= exact.sum(axis=1, keepdims=True)
    assert bigrams.marginals(emissions) == pytest.approx(exact)
    if not texts:  # no word tells of another
        alone = np.array(emissions).reshape(length, S) * bigrams.single
        assert exact == pytest.approx(alone / alone.sum(axis=1, keepdims=True))


V = 5  # of the beam's tests
CHAINS = [np.array(text) for text in ([0, 1, 2], [0, 1, -1], [3, 1, 2, 0], [4])]
BIGRAMS = Bigrams.of(CHAINS, np.full(V, 1 / V))
PLACE = st.lists(st.integers(0, V), min_size=1, max_size=3, unique=True)


def total(path: tuple[int, ...], weight: float) -> float:
    """The bigrams' part of a path's score, by the definition of P(v|w)."""
    steps = zip((V + 1, *path), (*path, V + 1), strict=True)
    single = BIGRAMS.single
    return weight * sum(
        np.log(BIGRAMS.pairs[[w]][:, [v]].toarray()[0, 0] + BIGRAMS.backoff[w] * single[v])
        - np.log(single[v])
        for w, v in steps
    )


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
