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
    def padded(rows: Ragged, at: list[int], fill: int) -> torch.Tensor:
        return rows.padded(rows.places(torch.tensor(at)), fill)

    rows = Ragged.of(ROWS)
    assert padded(rows, [2, 3, 1], 9).tolist() == [[4, 9], [5, 6], [9, 9]]
    assert padded(rows, [1], 9).shape == (1, 0)
    flags = Ragged.of([[True], []], torch.bool)
    assert padded(flags, [1, 0], False).tolist() == [[False], [True]]
