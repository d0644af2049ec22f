import torch

from rapt.tuning.ragged import Ragged

ROWS = [[1, 2, 3], [], [4], [5, 6]]


def test_rows_are_read_as_lists() -> None:
    rows = Ragged.of(ROWS)
    assert list(rows) == ROWS
    assert rows[3] == [5, 6] and len(rows) == 4
    assert rows.lengths.tolist() == [3, 0, 1, 2]
    assert list(Ragged.of([])) == [] and list(Ragged.of([[]])) == [[]]


def test_some_rows_are_taken_in_the_order_asked_for() -> None:
    rows = Ragged.of(ROWS)
    assert list(rows.at(torch.tensor([3, 1, 0, 0]))) == [[5, 6], [], [1, 2, 3], [1, 2, 3]]
    assert list(rows.at(torch.tensor([], dtype=torch.long))) == []


def test_padding_fills_up_to_the_longest_of_the_rows() -> None:
    rows = Ragged.of(ROWS)
    assert rows.padded(torch.tensor([2, 3, 1]), 9).tolist() == [[4, 9], [5, 6], [9, 9]]
    assert rows.padded(torch.tensor([1]), 9).shape == (1, 0)
    assert Ragged.of([[True], []], torch.bool).padded(torch.tensor([1, 0]), False).tolist() == [
        [False],
        [True],
    ]
