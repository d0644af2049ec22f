"""The first pass by torch: float32 on any device.

This module imports torch: import it only where torch is wanted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rapt.privacy.neighbours.first_pass import (
    GROUP,
    Scores,
    float32_error,
    halves,
    lengths_of,
    squares_of,
)

# On the CPU 4 MiB of scores that stay in cache; on a GPU products large enough to fill it: 512 MiB.
CPU_ROWS, CPU_QUERIES = 2048, 1024
GPU_ROWS, GPU_QUERIES = 1 << 15, 1 << 12

# The choice is the whole process's: a thread must not bring it back while another relies on it.
_FULL_FLOAT32 = threading.Lock()


class TorchTile:
    """Scores with a line for each query: a group is every W-th row of the tile's GROUP·W."""

    def __init__(self, start: int, scores: torch.Tensor) -> None:
        """Take the scores, float32 (n, GROUP·W), of the rows from `start` on."""
        self._start = start
        self._groups = scores.view(len(scores), GROUP, -1)
        self.maxima: NDArray[np.float32] = self._groups.amax(1).cpu().numpy()

    def of_groups(
        self, queries: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """See Tile."""
        if self._groups.device.type == "cpu":  # numpy's indexing has less overhead
            return self._groups.numpy()[queries, :, groups]
        lines, columns = (torch.from_numpy(x).to(self._groups.device) for x in (queries, groups))
        return self._groups[lines, :, columns].cpu().numpy()

    def rows(self, groups: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.int64]:
        """See Tile."""
        return self._start + groups + self._groups.shape[2] * members


class TorchPass:
    """Scores of float32 on a device, each within float32_error."""

    concurrent = False

    def __init__(self, vectors: NDArray[np.float32], device: str) -> None:
        """Copy the table, float32 (V, d), to the device."""
        self._device = torch.device(device)
        on_cpu = self._device.type == "cpu"
        self.batch = CPU_QUERIES if on_cpu else GPU_QUERIES
        table = np.asarray(vectors, dtype=np.float32)
        squares = squares_of(table)
        self._longest = float(np.sqrt(squares.max()))
        rows = _tile_rows(len(table), CPU_ROWS if on_cpu else GPU_ROWS)
        biases = -halves(squares)
        self._tiles = [
            (
                torch.from_numpy(_filled(table[start : start + rows], rows, 0)).to(device).T,
                torch.from_numpy(_filled(biases[start : start + rows], rows, -np.inf)).to(device),
            )
            for start in range(0, len(table), rows)
        ]

    def scores(self, queries: NDArray[np.float64]) -> Scores:
        """See FirstPass."""
        lengths = lengths_of(queries)
        error = float32_error(lengths, self._longest, queries.shape[1])
        lines = queries.astype(np.float32)
        lines[~np.isfinite(error)] = 0
        on_device = torch.from_numpy(lines).to(self._device)
        return Scores(error, self._score(on_device))

    def _score(self, queries: torch.Tensor) -> Iterator[TorchTile]:
        for index, (table, biases) in enumerate(self._tiles):
            with _full_float32():
                scores = torch.addmm(biases, queries, table)
            yield TorchTile(index * len(biases), scores)


@contextmanager
def _full_float32() -> Iterator[None]:
    """Keep a GPU from rounding factors to TF32's 11 bits, whatever the process chose."""
    with _FULL_FLOAT32:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


def _tile_rows(size: int, most: int) -> int:
    """The rows of each tile: whole groups, tiles of one size with little to fill at the end."""
    tiles = -(-size // most)
    return -(-size // (tiles * GROUP)) * GROUP


def _filled(part: NDArray[Any], rows: int, value: float) -> NDArray[Any]:
    """The part with `value` up to this number of rows."""
    whole = np.full((rows, *part.shape[1:]), value, part.dtype)
    whole[: len(part)] = part
    return whole
