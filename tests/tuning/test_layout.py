import numpy as np
import pytest

from rapt.tuning.layout import (
    NO_PLAIN,
    Runs,
    Units,
    flat,
    laid_out,
    that_fit,
)


def test_runs_stand_by_place_and_then_as_given() -> None:
    units, text = Units([[7, 8], [9]]), np.array([0, 1, 0])
    runs = [
        Runs.of(text, [5, 0, 5], [1, 1, 0], plain=[0, 0, 1]),
        Runs.of(np.array([0]), 1, units.add([3]), type=1, own=True),
    ]
    tokens, types, plain, own = laid_out(runs, units, 3, units.add([4]))
    assert list(tokens) == [[3, 9, 7, 8], [9], [4]]
    assert list(types) == [[1, 0, 0, 0], [0], [0]]
    assert list(plain) == [[NO_PLAIN, 0, 1, 1], [0], [NO_PLAIN]]
    assert list(own) == [[True, False, False, False], [False], [False]]


@pytest.mark.parametrize(
    ("costs", "kept"),
    [
        ([[2, 2, 2, 2], []], [[1, 1, 1, 0], []]),  # a text alone has all the room
        ([[4, 4], [1, 1]], [[1, 0], [1, 1]]),  # the longer half has what the shorter leaves
        ([[1, 1], [4, 4]], [[1, 1], [1, 0]]),
        ([[2, 2, 2], [2, 2, 2]], [[1, 0, 0], [1, 0, 0]]),
        ([[0, 7, 0], []], [[1, 0, 0], []]),
        ([[], [6, 1]], [[], [1, 0]]),
    ],
)
def test_leading_words_fit(costs: list[list[int]], kept: list[list[int]]) -> None:
    group = flat([[half] * len(costs[half]) for half in (0, 1)])
    beside = np.append(group, [2, 2])  # another text, which has room of its own
    found = that_fit(np.append(flat(costs), [6, 1]), beside, 2, 6)
    assert found.tolist() == [*flat(kept).astype(bool), True, False]
