"""Fill in the figures of the pages from the files that hold them: `python docs/figures.py`.

A figure is between two comments that name its file, its place there and its format:

    <!-- figure reports/metrics.json#train > CELL > accuracy % -->78.8<!-- /figure -->

`%` prints a share in percent, `.2` two digits. Between `<!-- table FILE#SUBJECT -->` and
`<!-- /table -->` is a table of reports/benchmarks.json, of evidence/audit.json, or of a leaderboard
(TASK:TUNER). A test compares the pages with the files.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from rapt import params
from rapt.results import table

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(
    r"(<!-- figure (?P<file>\S+)#(?P<place>.+?) (?P<format>%|\.\d) -->).*?(<!-- /figure -->)"
)
TABLE = re.compile(
    r"(<!-- table (?P<file>\S+)#(?P<place>[\w:-]+) -->\n).*?(<!-- /table -->)", re.DOTALL
)


def pages() -> list[Path]:
    """The pages that may hold figures."""
    return [
        ROOT / "README.md",
        *sorted(ROOT.glob("docs/**/*.md")),
        *sorted(ROOT.glob("evidence/*.md")),
    ]


def filled(page: str) -> str:
    """Return the page with all its figures and tables as the files have them now."""
    page = FIGURE.sub(lambda m: f"{m[1]}{_figure(**m.groupdict())}{m[5]}", page)
    return TABLE.sub(lambda m: f"{m[1]}{_table(m['file'], m['place'])}{m[4]}", page)


def _figure(file: str, place: str, format: str) -> str:
    value = _read(file)
    for key in place.split(" > "):
        try:
            value = _of_list(value, key) if isinstance(value, list) else value[key]
        except (KeyError, ValueError):
            sys.exit(f"{file}: got no '{key}', expected {place}. Run what makes this file.")
    if isinstance(value, list):  # of the seeds
        value = fmean(value)
    if format == "%":
        return f"{100 * value:.1f}"
    return f"{value:,.{format[1:]}f}"


@cache
def _read(file: str) -> Any:
    path = ROOT / file
    if path.name == "cells.csv":
        return _cells(path)
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as rows:
            return list(csv.DictReader(rows))
    return json.loads(path.read_text(encoding="utf-8"))


def _cells(path: Path) -> dict[str, dict[str, Any]]:
    """The cells of an experiment's table, by kind and name, each with its release's share."""
    results = table.read(params.load(path.with_name("params.yaml")), path)
    found: dict[str, dict[str, Any]] = {}
    for cell in results.cells:
        if cell.content:
            share = {"replaced_share": results.replaced(cell.factors)}
            content = cell.content.model_dump() | share
            found.setdefault(cell.plan.kind, {})[cell.plan.cell] = content
    return found


def _of_list(items: list[Any], key: str) -> Any:
    """The item at a place, a value of each seed, or the value of a benchmark's figure."""
    if key.isdecimal():
        return items[int(key)]
    if key in items[0]:
        return [item[key] for item in items]
    (value,) = (figure["value"] for figure in items if figure["name"] == key)
    return value


def _table(file: str, place: str) -> str:
    content = _read(file)
    if file.endswith(".csv"):
        rows = _leaderboard([row for row in content if _list_of(row) == place])
    else:
        of = _benchmarks if file == "reports/benchmarks.json" else _audit
        rows = of(content[place])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _list_of(row: dict[str, str]) -> str:
    """The name of a row's list, as movies:lora, or movies:lora:local with the local model."""
    return f"{row['task']}:{row['tuner']}" + ":local" * (row["with_local"] == "True")


def _leaderboard(rows: list[dict[str, str]]) -> Iterator[tuple[str, ...]]:
    """Accuracy of each method at each level, and the words that an attacker recovers there."""
    levels = list(dict.fromkeys(row["level"] for row in rows))
    yield "method", *levels
    yield ("---",) * (1 + len(levels))
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = {row["level"]: row for row in rows if row["method"] == method}
        yield method, *(_cell(cells[level]) if level in cells else "" for level in levels)


def _cell(row: dict[str, str]) -> str:
    names = ("accuracy", "accuracy_low", "accuracy_high", "recovered")
    mean, low, high, read = (f"{100 * float(row[name]):.1f}" for name in names)
    return f"{mean} ({low} to {high}), read {read}"


def _benchmarks(figures: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield "measured", "value", "unit", "target"
    yield "---", "---", "---", "---"
    for figure in figures:
        value = "not on this machine" if figure["value"] is None else f"{figure['value']:,.4g}"
        missed = ", missed" if figure["met"] is False else ""
        yield figure["name"], value, figure["unit"], (figure["target"] or "") + missed


def _audit(verdicts: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield "audited", "loss allowed", "loss shown", "white-box", "black-box", "verdict"
    yield "---", "---", "---", "---", "---", "---"
    for verdict in verdicts:
        best = verdict["strongest"]
        losses = ["", ""]
        if best:
            allowed = math.inf if best["bound"] is None else best["bound"]
            claimed = " by the claim" if best["claim"] < allowed else ""
            losses = [f"{min(allowed, best['claim']):.2f}{claimed}", f"{best['loss']:.2f}"]
        # Rounded up, so that no more is said than holds.
        powers = [
            f"{math.ceil(1000 * power) / 1000:.3f}" if (power := verdict[name]) else ""
            for name in ("white_box", "black_box")
        ]
        yield (f"`{verdict['name']}`", *losses, *powers, verdict["verdict"])


if __name__ == "__main__":
    for path in pages():
        before = path.read_text(encoding="utf-8")
        if (after := filled(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(ROOT))
