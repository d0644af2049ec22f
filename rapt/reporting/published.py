"""Numbers printed in the papers, for orientation: other models, other data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

from rapt.params import Params
from rapt.plan import sorted_etas

# The paper's names: where a report shares neither task nor tuner, these stand for orientation.
TASK, TUNER = "sst2", "lora"
METHODS = ("t2t", "pct2t", "rapt")


@dataclass(frozen=True)
class Published:
    """One printed table, cut to what a report can be read beside: rows × η, in percent."""

    title: str
    etas: list[str]
    rows: dict[str, dict[str, str]]


def published(params: Params) -> list[Published]:
    """Accuracy and inversion accuracy by method and η, then the replacement probability by η."""
    rows = _read("utility.csv")
    known = {row["task"] for row in rows}
    tasks = [task for task in params.sweep.train if task in known] or [TASK]
    types = dict.fromkeys(str(params.tuners[name].type) for name in params.sweep.tuners)
    tuners = [t for t in types if t in {row["tuner"] for row in rows}] or [TUNER]
    shown = [
        row
        for row in rows
        if row["task"] in tasks
        and (row["metric"] == "inversion_accuracy" or row["tuner"] in tuners)
        and row["metric"] in ("accuracy", "inversion_accuracy")
        and row["method"] in METHODS
    ]
    for row in shown:
        tuner = f", {row['tuner']}" if row["tuner"] else ""
        quantity = row["metric"].replace("_", " ")
        row["title"] = (
            f"{quantity}, {row['task']}, {row['backbone']}{tuner} "
            f"({row['source']}, table {row['table']})"
        )
    replacement = [
        {
            **row,
            "title": f"replacement probability ({row['source']}, table {row['table']})",
            "method": row["embedding"],
            "value": f"{100 * float(row['replacement_probability']):.0f}",
        }
        for row in _read("replacement.csv")
        if not row["accuracy_sst2"]
    ]
    both = shown + replacement
    return [_table(title, both) for title in dict.fromkeys(row["title"] for row in both)]


def _table(title: str, rows: list[dict[str, str]]) -> Published:
    own = [row for row in rows if row["title"] == title]
    values: dict[str, dict[str, str]] = {}
    for row in own:
        values.setdefault(row["method"], {})[row["eta"]] = row["value"]
    return Published(title, sorted_etas(list({row["eta"] for row in own})), values)


def _read(name: str) -> list[dict[str, str]]:
    text = files("rapt.reporting").joinpath("published", name).read_text()
    return list(csv.DictReader(text.splitlines()))
