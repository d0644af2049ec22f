"""Rows of different lengths, one after the other in one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Places(NamedTuple):
    """Where some rows stand, padded on the right to the longest.

    Attributes:
        of_values: their values, one row after the other.
        within: where those stand, (rows, length); the rest is padding.
    """

    of_values: Tensor
    within: Tensor


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths; each is read as a list.

    Attributes:
        values: those of all rows (total,).
        starts: of each row in `values`, and the end of the last, int64 (rows + 1,).
    """

    values: Tensor
    starts: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]], dtype: torch.dtype = torch.int32) -> Ragged:
        """Take the rows as lists."""
        values = torch.tensor(list(chain.from_iterable(rows)), dtype=dtype)
        return cls.split(values, torch.tensor([len(row) for row in rows], dtype=torch.long))

    @classmethod
    def split(cls, values: Tensor, lengths: Tensor) -> Ragged:
        """Take the values of all rows, and the length of each."""
        return cls(values, torch.nn.functional.pad(lengths.cumsum(0), (1, 0)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> list[Any]:
        start, end = self.starts[row], self.starts[row + 1]
        return self.values[start:end].tolist()

    def __iter__(self) -> Iterator[list[Any]]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> Tensor:
        """The length of each row, int64 (rows,)."""
        return self.starts.diff()

    def at(self, rows: Tensor) -> Ragged:
        """Return some rows."""
        lengths = self.lengths[rows]
        ends = lengths.cumsum(0)
        places = torch.arange(int(lengths.sum())) + torch.repeat_interleave(
            self.starts[rows] - ends + lengths, lengths
        )
        return Ragged.split(self.values[places], lengths)

    def places(self, rows: Tensor) -> Places:
        """Return where some rows stand, which those of equal lengths share."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        steps = torch.arange(int(lengths.max()))
        within = steps < lengths[:, None]
        return Places((starts[:, None] + steps)[within], within)

    def padded(self, places: Places, fill: int) -> Tensor:
        """Return the rows in these places, padded with `fill`: (rows, length)."""
        padded = self.values.new_full(places.within.shape, fill)
        padded[places.within] = self.values[places.of_values]
        return padded
