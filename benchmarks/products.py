"""The search against the machine's own matrix products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.measure import Figure, figure, interleaved, ratio
from benchmarks.tables import SIZE, eta_at, release, t2t, text, write_table
from rapt.privacy.mechanisms.noise import spherical_noise
from rapt.privacy.neighbours import ExactSearch
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable

WORDS, ROUNDS = 8192, 5


def run(tables: Path) -> list[Figure]:
    figures = []
    for dimension in (384, 768):
        folder = write_table(tables / f"{SIZE}x{dimension}", SIZE, dimension)
        for threads in (1, 2):
            with threadpool_limits(threads):
                before = torch.get_num_threads()
                torch.set_num_threads(threads)
                figures += _compare(EmbeddingTable(folder), f"d={dimension} threads={threads}")
                torch.set_num_threads(before)
    return figures


def _compare(table: EmbeddingTable, at: str) -> list[Figure]:
    vectors = np.array(table.vectors)
    words = text(WORDS, SIZE)
    noise = spherical_noise(stream(0, "benchmark"), WORDS, table.dimension)
    queries = table.embed(words) + noise / eta_at(table.dimension)
    float32 = ExactSearch(vectors)
    privatizer = t2t(table)
    single, scores = queries.astype(np.float32), np.empty((WORDS, SIZE), np.float32)
    runs = {
        # What no exact search by float32 products can do without; memory is there already.
        "product": lambda: np.matmul(single, vectors.T, out=scores),
        "float32": lambda: float32(queries),
        "whole": lambda: release(privatizer, words),
    }
    taken = interleaved(runs, ROUNDS)
    operations = 2 * SIZE * table.dimension * WORDS
    rate = operations / np.median(taken["product"]) / 1e9
    own = ratio(taken["product"], taken["float32"])
    whole = ratio(taken["product"], taken["whole"])
    words_per_second = WORDS / float(np.median(taken["float32"]))
    return [
        figure(f"float32 product, {at}", float(rate), "GFLOP/s"),
        figure(f"exact search, {at}", words_per_second, "words/s"),
        figure(f"exact search / product, {at}", own, "of its rate", least=0.9),
        figure(f"whole T2T from a mapped table / product, {at}", whole, "of its rate"),
    ]
