"""First passes by torch: float32 on any device, and int8 where the CPU has int8 dot products.

This module imports torch: import it only where torch is wanted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rapt.privacy.neighbours.first_pass import (
    GROUP,
    OVERFLOW,
    Scores,
    distance_error,
    float32_distance_error,
    float32_error,
    halves,
    lengths_of,
    squares_of,
)

# On the CPU 4 MiB of scores that stay in cache; on a GPU products large enough to fill it: 512 MiB.
CPU_ROWS, CPU_QUERIES = 2048, 1024
GPU_ROWS, GPU_QUERIES = 1 << 15, 1 << 12
ZERO = 128  # what a query's 0 is written as: products take unsigned queries
TINY = 1e-30  # steps below it would be lost in float32

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

    def free(self) -> None:
        """Give back the memory, which the next tile then finds in cache."""
        del self._groups


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
        return Scores(error, lengths**2 / 2, None, self._score(on_device))

    def _score(self, queries: torch.Tensor) -> Iterator[TorchTile]:
        for index, (table, biases) in enumerate(self._tiles):
            with _full_float32():
                scores = torch.addmm(biases, queries, table)
            yield TorchTile(index * len(biases), scores)


class Int8Pass:
    """Scores from products of 8-bit integers, with the error of what was rounded off.

    With c the mean row, E' = E − c and q' = q − c (which changes no distance) are rounded to
    E' = Ê + δE and q' = q̂ + δq, whose products Ê·q̂ are sums of integers, exact in 32 bits. What
    they miss, E'·δq + δE·q̂, is at most ‖E'‖‖δq‖ + ‖δE‖‖q̂‖, by the remainders themselves.
    """

    batch = CPU_QUERIES
    concurrent = True

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Round the table, float32 (V, d), to int8."""
        self._center = vectors.mean(axis=0, dtype=np.float64)
        rows = _tile_rows(len(vectors), CPU_ROWS)
        self._tiles = [
            _Int8Tile(vectors[start : start + rows] - self._center, rows)
            for start in range(0, len(vectors), rows)
        ]
        self._longest = max(tile.longest for tile in self._tiles)
        self._farthest = self._longest + float(np.linalg.norm(self._center))
        self._rest = max(tile.rest for tile in self._tiles)
        self._sum = max(tile.sum for tile in self._tiles)

    def scores(self, queries: NDArray[np.float64]) -> Scores:
        """See FirstPass."""
        offsets = queries - self._center
        lengths = lengths_of(offsets)
        offsets[~(lengths < OVERFLOW)] = 0
        # Clipping what is beyond 4.5 times the typical number leaves finer steps for the rest.
        known = np.where(lengths < OVERFLOW, lengths, 0)
        typical = np.sqrt(np.square(known).mean() / queries.shape[1])
        scale = max(float(np.float32(4.5 * typical / ZERO)), TINY)
        rounded, rest = _rounded(offsets.astype(np.float32), scale, lengths)
        error = rest * self._longest + (lengths + rest) * self._rest
        error += self._rounding(lengths, scale)
        unsigned = torch.from_numpy(rounded)
        finer = float32_distance_error(lengths_of(queries), self._farthest, queries.shape[1])
        return Scores(error, lengths**2 / 2, finer, self._score(unsigned, scale))

    def _rounding(self, lengths: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """A bound on the error of scaling a product, adding ½‖E'‖², and of the distances."""
        size = 2 * ZERO * scale * self._sum + self._longest**2 / 2
        lost = len(self._center) * 2.0**-110 * (1 + scale)
        far = self._longest + 2 * float(np.linalg.norm(self._center))
        rounding = 16 * 2.0**-24 * size + lost + distance_error(lengths, far, len(self._center))
        rounding[~((lengths < OVERFLOW) & (size < OVERFLOW))] = np.inf
        return rounding

    def _score(self, queries: torch.Tensor, scale: float) -> Iterator[TorchTile]:
        for index, tile in enumerate(self._tiles):
            scored = TorchTile(index * tile.rows, tile.scores(queries, scale))
            yield scored
            scored.free()


def _rounded(
    offsets: NDArray[np.float32], scale: float, lengths: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Queries (n, d) in steps of `scale`, uint8 with 0 as ZERO, and how much that rounds off (n,).

    The latter is a bound on ‖δq‖: float32 rounds the offset, the multiple of `scale` and their
    difference by at most 2⁻²⁴ each, and the sum of squares by (d + 2)·2⁻²⁴.
    """
    steps = offsets * np.float32(1 / scale)
    np.rint(steps, out=steps)
    np.clip(steps, -ZERO, ZERO - 1, out=steps)
    offsets -= np.float32(scale) * steps
    rest = np.sqrt(np.einsum("nd,nd->n", offsets, offsets).astype(np.float64))
    rest += 2.0**-24 * (offsets.shape[1] + 2) * rest + 2.0**-22 * lengths
    steps += ZERO
    return steps.astype(np.uint8), rest


class _Int8Tile:
    """Consecutive rows, rounded, with what bounds their error.

    Attributes:
        rows: how many, with those of zeros that fill the last tile.
        longest: the greatest ‖E'‖.
        rest: the greatest ‖δE‖.
        sum: the greatest ‖Ê‖₁.
    """

    def __init__(self, offsets: NDArray[np.float64], rows: int) -> None:
        """Round the rows E', float64 (at most `rows`, d)."""
        self.rows = rows
        scales = np.maximum(np.abs(offsets).max(axis=1) / 127, TINY).astype(np.float32)
        steps = scales.astype(np.float64)[:, None]
        rounded = np.clip(np.rint(offsets / steps), -127, 127)
        lengths = lengths_of(offsets)
        self.longest = float(lengths.max())
        self.rest = float(lengths_of(offsets - rounded * steps).max())
        self.sum = float(np.abs(rounded * steps).sum(axis=1).max())
        self._packed = torch.ops.onednn.qlinear_prepack(
            torch.from_numpy(_filled(rounded.astype(np.int8), rows, 0)), None
        )
        self._scales = torch.from_numpy(_filled(scales, rows, 1))
        self._zeros = torch.zeros(rows, dtype=torch.int64)
        biases = -halves(np.square(lengths))
        self._biases = torch.from_numpy(_filled(biases, rows, -np.inf))

    def scores(self, queries: torch.Tensor, scale: float) -> torch.Tensor:
        """The scores, float32 (n, rows), for queries of uint8 that `scale` multiplies."""
        return _int8_product(queries, scale, self._packed, self._scales, self._zeros, self._biases)


def _int8_product(
    queries: torch.Tensor,
    scale: float,
    packed: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor,
    biases: torch.Tensor,
) -> torch.Tensor:
    """Compute scale · (queries − ZERO) @ (scales · packed).T + biases, float32, by oneDNN."""
    return torch.ops.onednn.qlinear_pointwise(
        *(queries, scale, ZERO, packed, scales, zeros, biases),
        *(1.0, 0, torch.float32, "none", [], ""),  # no scale nor step after it
    )


@cache
def int8_products() -> bool:
    """Whether torch has exact products of int8, and this CPU instructions for them.

    Without these (VNNI) two products may saturate 16 bits before they are summed.
    """
    if not (torch.cpu._is_vnni_supported() and torch.backends.mkldnn.is_available()):
        return False
    extremes = torch.full((GROUP, 256), -127, dtype=torch.int8)
    product = _int8_product(
        torch.full((GROUP, 256), 255, dtype=torch.uint8),
        1.0,
        torch.ops.onednn.qlinear_prepack(extremes, None),
        torch.ones(GROUP),
        torch.zeros(GROUP, dtype=torch.int64),
        torch.zeros(GROUP),
    )
    return bool((product == -127 * 256 * (255 - ZERO)).all())


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
