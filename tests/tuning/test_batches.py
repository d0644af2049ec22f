"""Batches hold every row once, and rows alike in length stand together."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rapt.tuning.batches import by_length, shuffled


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=100), st.integers(1, 9), st.integers(0, 99)
)
@settings(max_examples=40)
def test_every_row_comes_once_an_epoch(lengths: list[int], size: int, seed: int) -> None:
    batches = list(shuffled(lengths, size, torch.Generator().manual_seed(seed)))
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // size)
    for padded in (True, False):
        batches = list(by_length(lengths, size, padded=padded))
        assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
        assert padded or all(len({lengths[row] for row in rows}) == 1 for rows in batches)


def test_batches_are_of_rows_alike_in_length() -> None:
    """64 rows of 64 lengths are one pool: each batch of 8 spans 8 lengths that follow."""
    lengths = torch.randperm(64, generator=torch.Generator().manual_seed(0)).tolist()
    for rows in shuffled(lengths, 8, torch.Generator().manual_seed(1)):
        found = sorted(lengths[row] for row in rows)
        assert found == list(range(found[0], found[0] + 8))
    longest_first = [lengths[row] for rows in by_length(lengths, 8) for row in rows]
    assert longest_first == sorted(lengths, reverse=True)
