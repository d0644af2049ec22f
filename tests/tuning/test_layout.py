import numpy as np
import pytest

from rapt.tuning.inference_spec import fitting
from rapt.tuning.layout import (
    NO_PLAIN,
    NO_ROW,
    Runs,
    Units,
    Words,
    different,
    flat,
    laid_out,
    of_prompts,
    that_fit,
)


def test_each_different_word_has_one_number() -> None:
    words, (first, second) = different([["a", "b"], ["a"]], [[], ["c", "b"]])
    assert [words[number] for number in first] == ["a", "b", "a"]
    assert [words[number] for number in second] == ["c", "b"]
    assert sorted(words) == ["a", "b", "c"]
    assert [len(each) for each in different([[]], [])[1]] == [0, 0]


def test_a_vector_takes_one_token_where_a_word_has_any() -> None:
    units = Units([[7, 8], [], [9]])
    words = Words.of([[0, 1], [2, 0]], np.array([0, 1, 2, 0]), [[1, 0], [NO_ROW, NO_ROW]])
    assert words.text.tolist() == [0, 0, 1, 1] and words.place.tolist() == [0, 1, 0, 1]
    chosen, table = units.of(words), units.table()
    assert [table[unit] for unit in chosen.tolist()] == [[-2], [], [9], [7, 8]]


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


def test_prompts_keep_what_fitting_says() -> None:
    costs = [[[3, 2, 1], [2, 2], []], [[1], [1], [9, 9]]]
    sizes = flat([size for text in costs for size in text])
    parts = [size for text in costs for size in text]
    group = flat([[number] * len(part) for number, part in enumerate(parts)])
    for room in (3, 5, 8):
        expected = []
        for text in costs:
            for part, at in zip(text, fitting(text, room), strict=True):
                flags = np.zeros(len(part), bool)
                flags[at] = True
                expected += flags.tolist()
        assert of_prompts(sizes, group, 3, 2, room).tolist() == expected
