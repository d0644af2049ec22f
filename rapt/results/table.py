"""An experiment to keep as one table: a row for each cell, seed and metric (docs/data.md)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rapt.params import Params
from rapt.results import reader
from rapt.results.cells import CellResult, SeedResult, metrics_over, sidecar
from rapt.results.predictions import Predictions, Successes
from rapt.results.reader import ReadCell, Results
from rapt.utils import files
from rapt.utils.errors import RaptError, check_place

Row = dict[str, Any]
ANSWERS = "answers.parquet"
# The columns of every table. A column for a factor has the factor's name. A column for an entry
# of a cell's mappings has a dot in its name, as `count.test`.
KEY = ("kind", "cell")
MEASURED = ("seed", "metric", "step", "value", "low", "high")
RELEASE = ("protection", "replaced_share", "eta_found")
RUN = ("commit", "machine", "device", "seconds")
FIXED = {*KEY, *MEASURED, *RELEASE, *RUN}
# What such a name begins with, by the field of `CellResult`.
MAPPINGS = {"baselines": "baseline", "upper_bounds": "upper_bound", "counts": "count"}
MAPPINGS["training"] = "training"
# What a CSV file holds as text.
TYPES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("seed", "step", "count"), int),
    **dict.fromkeys((*MEASURED[3:], "replaced_share", "seconds"), float),
    **dict.fromkeys(("baseline", "upper_bound", "training"), float),
}


@dataclass(frozen=True)
class KeptCell(ReadCell):
    """A cell of a table, with its answers to the texts of the test split."""

    answers: dict[str, Predictions] = field(default_factory=dict)

    @cached_property
    def predictions(self) -> dict[str, Predictions]:
        """The answers as scores of 0 and 1."""
        return self.answers

    @cached_property
    def successes(self) -> dict[str, Successes]:
        """None: a table keeps no attack's successes on single texts."""
        return {}


def write(results: Results, path: Path) -> None:
    """Write the cells that have run, and beside them their answers to single texts, if kept.

    Args:
        results: of the project in the working folder.
        path: a .csv or .parquet file. The answers go to answers.parquet in its folder.

    Raises:
        RaptError: the name ends otherwise, the folder does not exist, or no cell has run.
    """
    if path.suffix not in (".csv", ".parquet") or path.name == ANSWERS:
        raise RaptError(
            f"--table: got {str(path)!r}, expected a name that ends in .csv or .parquet, other "
            f"than {ANSWERS}."
        )
    check_place("--table", path)
    ran = [cell for cell in results.cells if cell.content]
    if not ran:
        raise RaptError("--table: got no cell that has run, expected one. Run: dvc repro")
    rows = [row for cell in ran for row in _rows(results, cell)]
    found = dict.fromkeys(name for row in rows for name in row)
    factors = [name for name in found if _is_factor(name)]
    mappings = [name for name in found if "." in name]
    names = (*KEY, *factors, *MEASURED, *RELEASE, *mappings, *RUN)
    with files.atomic(path) as scratch:
        if path.suffix == ".csv":
            with scratch.open("w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, names, lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
        else:
            columns = {name: [row.get(name) for row in rows] for name in names}
            files.write_parquet(scratch, pa.table(columns))
    _write_answers(ran, path.with_name(ANSWERS))


def read(params: Params, path: Path) -> Results:
    """Read the planned cells that a table holds, with what it says of their releases."""
    found = {(cell.kind, cell.cell): (cell, row) for cell, row in _cells(path)}
    answers = _answers(path.with_name(ANSWERS))
    cells, gates = list[ReadCell](), dict[str, reader.Json | None]()
    for planned in reader.planned(params):
        key = planned.kind, planned.cell
        content, row = found.get(key, (None, {}))
        split = {"test": answers[key]} if key in answers else {}
        cells.append(KeptCell(planned, content, split))
        share, eta = row.get("replaced_share"), row.get("eta_found")
        if share is not None or eta is not None:  # a text that is released as a whole has no share
            replaced = [] if share is None else [{"share": share}]
            gates[reader.release(planned.factors)] = {"replaced": replaced, "eta": eta}
    return Results(params, cells=tuple(cells), private_gates=gates)


def read_cells(path: Path) -> list[CellResult]:
    """Read all cells of a table, those outside the plan of params.yaml included."""
    return [cell for cell, _ in _cells(path)]


def _rows(results: Results, cell: ReadCell) -> Iterator[Row]:
    content = cell.content
    assert content
    run = sidecar(content.kind, content.cell)
    of_cell = {
        "kind": content.kind,
        "cell": content.cell,
        **content.factors,
        "protection": content.protection,
        "replaced_share": results.replaced(content.factors),
        "eta_found": results.eta_found(content.factors),
        **{
            f"{prefix}.{name}": value
            for mapping, prefix in MAPPINGS.items()
            for name, value in getattr(content, mapping).items()
        },
        **{name: run.get(name) for name in RUN},
    }
    for seed in content.seeds:
        for name, value in seed.metrics.items():
            metric = content.metrics.get(name)
            ends = {"low": metric.low, "high": metric.high} if metric else {}
            yield of_cell | {"seed": seed.seed, "metric": name, "value": value} | ends
        for name, curve in seed.curves.items():
            for step, value in enumerate(curve):
                yield of_cell | {"seed": seed.seed, "metric": name, "step": step, "value": value}


def _is_factor(column: str) -> bool:
    return column not in FIXED and "." not in column


def _write_answers(ran: list[ReadCell], path: Path) -> None:
    parts = []
    for cell in ran:
        if test := cell.predictions.get("test"):
            seeds, texts = test.right.shape
            columns = {
                "kind": [cell.plan.kind] * seeds * texts,
                "cell": [cell.plan.cell] * seeds * texts,
                "seed": np.repeat(np.arange(seeds), texts),
                "example_id": [*test.examples] * seeds,
                "label": np.tile(test.labels, seeds),
                "answer": test.logits.argmax(axis=2).ravel(),
            }
            parts.append(pa.table(columns))
    path.unlink(missing_ok=True)  # of other cells than those of the table
    if parts:
        with files.atomic(path) as scratch:
            files.write_parquet(scratch, pa.concat_tables(parts))


def _cells(path: Path) -> Iterator[tuple[CellResult, Row]]:
    """Yield each cell of a table, and its first row."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                {name: _typed(name, x) for name, x in row.items()} for row in csv.DictReader(file)
            ]
    else:
        rows = files.read_parquet(path).to_pylist()
    for _, group in groupby(rows, itemgetter(*KEY)):
        own = list(group)
        yield _cell(own), own[0]


def _typed(name: str, value: str) -> Any:
    return TYPES.get(name.partition(".")[0], str)(value) if value else None


def _cell(rows: list[Row]) -> CellResult:
    first = rows[0]
    seeds = []
    for seed, group in groupby(rows, itemgetter("seed")):
        metrics, curves = dict[str, float](), dict[str, list[float]]()
        for row in group:
            if row["step"] is None:
                metrics[row["metric"]] = row["value"]
            else:
                curves.setdefault(row["metric"], []).append(row["value"])
        seeds.append(SeedResult(seed=seed, metrics=metrics, curves=curves))
    intervals = {row["metric"]: (row["low"], row["high"]) for row in rows if row["low"] is not None}
    given = {name: value for name, value in first.items() if value is not None}
    mappings = {
        mapping: {
            name.removeprefix(f"{prefix}."): value
            for name, value in given.items()
            if name.startswith(f"{prefix}.")
        }
        for mapping, prefix in MAPPINGS.items()
    }
    return CellResult(
        kind=first["kind"],
        cell=first["cell"],
        factors={name: value for name, value in given.items() if _is_factor(name)},
        protection=first["protection"],
        metrics=metrics_over(seeds, intervals),
        seeds=seeds,
        **mappings,
    )


def _answers(path: Path) -> dict[tuple[str, str], Predictions]:
    if not path.is_file():
        return {}
    rows = files.read_parquet(path)
    keys = list(zip(*(rows[name].to_pylist() for name in KEY), strict=True))
    found, start = {}, 0
    for key, group in groupby(keys):
        size = sum(1 for _ in group)
        own = rows.slice(start, size)
        seeds = len(own["seed"].unique())
        labels, answers = (own[name].to_numpy() for name in ("label", "answer"))
        classes = 1 + max(labels.max(), answers.max())
        scores = np.eye(classes)[answers].reshape(seeds, -1, classes)
        found[key] = Predictions.of(own.slice(0, size // seeds), [*scores])
        start += size
    return found
