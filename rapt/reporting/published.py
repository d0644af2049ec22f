"""Numbers printed in the papers, for orientation: other models, other data."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rapt.grid import sorted_etas
from rapt.reporting.text import percent
from rapt.results.reader import Results

BERT = "bert-base-uncased"


@dataclass(frozen=True)
class Published:
    """An excerpt of a printed table for comparison with the report: rows × η, in percent."""

    title: str
    etas: list[str]
    rows: dict[str, dict[str, str]]


@cache
def read(name: str) -> Sequence[Mapping[str, str]]:
    """Read a file of published numbers, row by row."""
    text = files("rapt.reporting").joinpath("published", name).read_text()
    return tuple(csv.DictReader(text.splitlines()))


def replaced(embedding: str) -> dict[str, float]:
    """Return RAPT's replacement probability by η on a model's table."""
    return {
        row["eta"]: float(row["replacement_probability"])
        for row in read("replacement.csv")
        if row["embedding"] == embedding
    }


def inverted() -> dict[str, float]:
    """Return the accuracy by η of Qu et al.'s inversion on SST-2: it finds the words kept."""
    rows = read("inversion.csv")
    return {row["eta"]: float(row["value"]) / 100 for row in rows if row["task"] == "sst2"}


def beside(results: Results) -> list[Published]:
    """Return the papers' numbers for BERT-base by η, with those of each table here.

    They are replacement (RAPT, table III) and white-box inversion of T2T (Qu et al., table 3). The
    latter finds the words that are kept: 1 − replaced. They show that a table has its own scale
    of η.
    """
    ours = {
        embedding: {point["eta"]: point["replaced"] for point in content["curves"]["t2t"]}
        for embedding, content in results.calibrations.items()
        if content
    }
    kept = {name: {eta: 1 - share for eta, share in of.items()} for name, of in ours.items()}
    shares = {eta: f"{100 * share:.0f}" for eta, share in replaced(BERT).items()}
    found = {eta: str(round(100 * share, 2)) for eta, share in inverted().items()}
    return [
        _beside("words replaced, %", f"{BERT} (RAPT, table III)", shares, ours),
        _beside("white-box inversion, accuracy %", f"{BERT} (Qu et al., table 3)", found, kept),
    ]


def _beside(
    title: str, source: str, printed: dict[str, str], ours: dict[str, dict[str, float]]
) -> Published:
    rows = {f"published: {source}": printed} | {
        f"here: {embedding}": {eta: percent(shares[eta]) for eta in printed if eta in shares}
        for embedding, shares in ours.items()
    }
    return Published(title, sorted_etas(list(printed)), rows)
