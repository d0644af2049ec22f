"""Each word mechanism against T2T, on one table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.measure import Figure, figure, interleaved, ratio
from benchmarks.tables import SIZE, eta_at, release, t2t, text, write_table
from rapt.privacy.mechanisms import MECHANISMS, mechanism
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError

WORDS, ROUNDS, DIMENSION = 2048, 3, 384


def run(tables: Path) -> list[Figure]:
    table = EmbeddingTable(write_table(tables / f"{SIZE}x{DIMENSION}", SIZE, DIMENSION))
    words, figures = text(WORDS, SIZE), []
    once = partial(release, t2t(table), words)
    aligned = [name for name, kind in MECHANISMS.data.items() if kind.releases.aligned]
    for name in (name for name in aligned if name != "t2t"):
        try:
            other = partial(release, _privatizer(table, name), words)
            taken = interleaved({"t2t": once, "other": other}, ROUNDS)
        except RaptError:  # as imola, which takes at most 60 words
            figures.append(figure(f"{name} / T2T", None, "times"))
        else:
            figures.append(
                figure(f"{name} / T2T", ratio(taken["t2t"], taken["other"]), "times its words/s")
            )
    return figures


def _privatizer(table: EmbeddingTable, name: str) -> Privatizer:
    categories = ["noun"] if name == "pct2t" else None  # of the table's only category
    made = mechanism(name).privatizer(table=table, categories=categories, eta=eta_at(DIMENSION))
    return of_words(made)
