"""Fill in the tables of the pages from the files that hold their figures: `python docs/figures.py`.

A table stands between `<!-- table NAME -->` and `<!-- /table -->`; docs/tables.yaml says how it is
made. A NAME like FILE#SUBJECT is a table of reports/benchmarks.json, of evidence/audit.json, or of
a leaderboard (TASK:TUNER). A test compares the pages with the files.
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

from ruamel.yaml import YAML

from rapt import params
from rapt.reporting.text import labels_text
from rapt.results import table

ROOT = Path(__file__).parents[1]
TABLES: dict[str, Any] = YAML(typ="safe").load(ROOT / "docs/tables.yaml")
FORMAT = r"(?P<format>%±|%|\.\d|labels)"
TABLE = re.compile(r"(<!-- table (?P<name>\S+) -->\n).*?(<!-- /table -->)", re.DOTALL)
PLACE = re.compile(rf"\[(?P<place>[^\]]+) {FORMAT}\]")


def pages() -> list[Path]:
    """The pages that may hold figures."""
    return [
        ROOT / "README.md",
        *sorted(ROOT.glob("docs/**/*.md")),
        *sorted(ROOT.glob("evidence/*.md")),
    ]


def filled(page: str) -> str:
    """Return the page with all its tables as the files have them now."""
    return TABLE.sub(lambda m: f"{m[1]}{_table(m['name'])}{m[3]}", page)


def _table(name: str) -> str:
    file, _, subject = name.partition("#")
    if not subject:
        if name not in TABLES:
            sys.exit(f"docs/tables.yaml: got no table '{name}', expected it.")
        rows = _planned(TABLES[name])
    elif file.endswith(".csv"):
        rows = _leaderboard([row for row in _read(file) if _list_of(row) == subject])
    else:
        rows = (_benchmarks if file == "reports/benchmarks.json" else _audit)(_read(file)[subject])
    header, *lines = (f"| {' | '.join(row)} |\n" for row in rows)
    return "".join([header, f"{'| --- ' * (header.count('|') - 1)}|\n", *lines])


def _planned(spec: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The rows of a table as docs/tables.yaml describes it."""
    columns = spec["columns"]
    yield spec["corner"], *columns
    for label, given in spec["rows"].items():
        row = given if isinstance(given, dict) else {"row": given}
        file = row.get("file", spec["file"])
        shared = row.get("cell", spec.get("cell"))
        cells = [
            str(row.get(name, shared if "cell" in row or "cell" in spec else column))
            .replace("ROW", str(row.get("row")))
            .replace("COLUMN", str(column))
            for name, column in columns.items()
        ]
        yield tuple(_with_figures(file, text) for text in (str(label), *cells))


def _with_figures(file: str, text: str) -> str:
    return PLACE.sub(lambda m: _figure(file, m["place"], m["format"]), text)


def _figure(file: str, place: str, format: str) -> str:
    value, around, key = _read(file), {}, ""
    for key in place.split(" > "):
        try:
            around, value = value, _of_list(value, key) if isinstance(value, list) else value[key]
        except (KeyError, StopIteration, ValueError):
            sys.exit(f"{file}: got no '{key}', expected {place}. Run what makes this file.")
    if format == "labels":
        tried = around["labels_from"], around["labels_to"]
        names = (key, f"{key}_low", f"{key}_high")
        shown, *ends = (labels_text(around[name], *tried) for name in names)
        return f"{shown} ({' to '.join(ends)})"
    parts = value if isinstance(value, dict) else {}
    if isinstance(value, list):  # of the seeds
        value = fmean(value)
    mean = parts["mean"] if parts else value
    if format.startswith("."):
        return f"{mean:,.{format[1:]}f}"
    shown = f"{100 * mean:.1f}"
    if format == "%±":
        ends = [parts[end] if parts else around[f"{key}_{end}"] for end in ("low", "high")]
        shown += f" ({' to '.join(f'{100 * end:.1f}' for end in ends)})"
    return shown


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
    """The cells of an experiment's table, by kind and name, each with its release's share and η."""
    results = table.read(params.load(path.with_name("params.yaml")), path)
    found: dict[str, dict[str, Any]] = {}
    for cell in results.cells:
        if cell.content:
            release = {"replaced_share": results.replaced(cell.factors)}
            if eta := results.eta_found(cell.factors):
                release["eta_found"] = float(eta)
            content = cell.content.model_dump() | release
            found.setdefault(cell.plan.kind, {})[cell.plan.cell] = content
    return found


def _of_list(items: list[Any], key: str) -> Any:
    """The item at a place, the one with these values, or a benchmark's figure."""
    if key.isdecimal():
        return items[int(key)]
    if re.fullmatch(r"\w+=[^,]+(, \w+=[^,]+)*", key):
        wanted = dict(part.split("=") for part in key.split(", "))
        return next(item for item in items if wanted.items() <= _as_text(item).items())
    (value,) = (figure["value"] for figure in items if figure["name"] == key)
    return value


def _as_text(item: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in item.items()}


def _list_of(row: dict[str, str]) -> str:
    """The name of a row's list, as movies:lora, or movies:lora:local with the local model."""
    return f"{row['task']}:{row['tuner']}" + ":local" * (row["with_local"] == "True")


def _leaderboard(rows: list[dict[str, str]]) -> Iterator[tuple[str, ...]]:
    """Accuracy of each method at each level, and the words that an attacker recovers there."""
    levels = list(dict.fromkeys(row["level"] for row in rows))
    yield "method", *levels
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = {row["level"]: row for row in rows if row["method"] == method}
        yield method, *(_cell(cells[level]) if level in cells else "" for level in levels)


def _cell(row: dict[str, str]) -> str:
    names = ("accuracy", "accuracy_low", "accuracy_high", "recovered")
    mean, low, high, read = (f"{100 * float(row[name]):.1f}" for name in names)
    return f"{mean} ({low} to {high}), read {read}"


def _benchmarks(figures: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield "measured", "value", "unit", "target"
    for figure in figures:
        value = "not on this machine" if figure["value"] is None else f"{figure['value']:,.4g}"
        missed = ", missed" if figure["met"] is False else ""
        yield figure["name"], value, figure["unit"], (figure["target"] or "") + missed


def _audit(verdicts: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield "audited", "loss allowed", "loss shown", "white-box", "black-box", "verdict"
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
