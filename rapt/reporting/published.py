"""Numbers printed in the papers, for orientation: other models, other data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

from rapt.grid import sorted_etas
from rapt.reporting.text import percent
from rapt.results.reader import Results

TASK = "sst2"
BERT = "bert-base-uncased"


@dataclass(frozen=True)
class Published:
    """An excerpt of a printed table for comparison with the report: rows × η, in percent."""

    title: str
    etas: list[str]
    rows: dict[str, dict[str, str]]


def beside(results: Results) -> list[Published]:
    """Return the papers' numbers for BERT-base by η, with those of each table here.

    They are replacement (RAPT, table III) and white-box inversion of T2T (Qu et al., table 3). The
    latter finds the words that are kept: 1 − replaced. They show that a table has its own scale
    of η.
    """
    shares = {
        row["eta"]: f"{100 * float(row['replacement_probability']):.0f}"
        for row in _read("replacement.csv")
        if row["embedding"] == BERT
    }
    inverted = {
        row["eta"]: row["value"]
        for row in _read("utility.csv")
        if row["metric"] == "inversion_accuracy" and row["task"] == TASK
    }
    ours = {
        embedding: {point["eta"]: point["replaced"] for point in content["curves"]["t2t"]}
        for embedding, content in results.calibrations.items()
        if content
    }
    kept = {name: {eta: 1 - share for eta, share in of.items()} for name, of in ours.items()}
    return [
        _beside("words replaced, %", f"{BERT} (RAPT, table III)", shares, ours),
        _beside("white-box inversion, accuracy %", f"{BERT} (Qu et al., table 3)", inverted, kept),
    ]


def _beside(
    title: str, source: str, printed: dict[str, str], ours: dict[str, dict[str, float]]
) -> Published:
    rows = {f"published: {source}": printed} | {
        f"here: {embedding}": {eta: percent(shares[eta]) for eta in printed if eta in shares}
        for embedding, shares in ours.items()
    }
    return Published(title, sorted_etas(list(printed)), rows)


def _read(name: str) -> list[dict[str, str]]:
    text = files("rapt.reporting").joinpath("published", name).read_text()
    return list(csv.DictReader(text.splitlines()))
