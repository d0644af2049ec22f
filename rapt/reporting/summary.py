"""The results in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rapt import paths
from rapt.params import Params
from rapt.reporting import tables, utility_table
from rapt.reporting.measured import measured, measured_text
from rapt.reporting.narrative import headline
from rapt.reporting.rows import Row
from rapt.reporting.text import attack_text, count, group_text, percent, span, training_text
from rapt.reporting.writer import frames
from rapt.reporting.written import by_task
from rapt.results.reader import Results, load

# Those that programs get.
TABLES = ("utility", "written", "privacy", "differences", "leaderboard", "claims")


def as_json(params: Params) -> dict[str, Any]:
    """The same for programs: a row for each cell, null where it has not run."""
    results = load(params)
    tidy = frames(results)
    return {
        "advice": dict(headline(results)).get("Advice"),
        "levels": list(_levels(results)),
        **{name: tidy[name].to_dict("records") for name in TABLES},
        "missing": [cell.plan.command for cell in results.missing()],
        "report": str(paths.REPORT.resolve()) if paths.REPORT.is_file() else None,
    }


def _levels(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the page's first table: the best release at each level, against sending nothing."""
    utility = utility_table.utility(results)
    for group, levels in tables.worth(utility, tables.privacy(results)).items():
        clean = utility_table.clean(utility, group)
        for row, attack in (rows[0] for rows in levels.values()):
            if not row.unprotected:
                yield {
                    **dict(zip(("task", "backbone", "tuner"), group, strict=True)),
                    "eta": row.eta,
                    "best": row.label,
                    "accuracy": row.accuracy,
                    "against_local": row.against_local,
                    "local": row.local,
                    "to_beat": row.to_beat,
                    "clean": clean.accuracy if clean else None,
                    "attack": attack.attack if attack else None,
                    "recovered": attack.attack_accuracy if attack else None,
                    "unprotected_share": attack.unprotected_share if attack else None,
                }


def print_results(params: Params) -> None:
    """Print the utility and privacy tables of what there is, and where the report lies."""
    results, console = load(params), Console()
    utility, privacy = utility_table.utility(results), tables.privacy(results)
    for grid in tables.grids([row for row in utility if row.on_grid]):
        clean = _value(grid.clean, "accuracy") if grid.clean else "not planned"
        told = (
            f"baseline {span(row.majority for row in grid.every)}; nothing sent "
            f"{percent(grid.first.to_beat)}; clean text, "
            f"{training_text(grid.clean)} {clean}"
        )
        if grid.first.chance is not None:
            told += f", exact match {percent(grid.clean.exact_match)}" if grid.clean else ""
            told += f"; chance {percent(grid.first.chance)}"
        _print(console, f"{group_text(grid.group)}: accuracy, % ({told})", grid, "accuracy")
    for row in utility:
        if not row.on_grid:
            console.print(
                f"study {row.cell}: accuracy, % {_value(row, 'accuracy')} "
                f"({group_text(row.group)} · {row.method}, η = {row.eta})"
            )
    for group, cells in by_task(results).items():
        _print_written(console, group, [row for row, _ in cells])
    for row in measured(results):
        value = measured_text(row.value, row.value_sd)
        told = f"baseline {measured_text(row.baseline)}; nothing sent {measured_text(row.local)}"
        console.print(f"{row.cell}: {row.metric} {value} ({told})", soft_wrap=True)
    for grid in tables.grids(privacy):
        told = f"baseline {span(row.majority for row in grid.every)}, clean text "
        told += percent(grid.first.clean_accuracy) + (f"; {grid.doubt}" if grid.doubt else "")
        title = f"{attack_text(*grid.group)}, {tables.LEARNED[grid.first.kind]}, % ({told})"
        _print(console, title, grid, "attack_accuracy")
    if missing := results.missing():
        console.print(
            f"{count(len(missing), 'cell')} not run yet; the first: {missing[0].plan.command}",
            style="yellow",
            soft_wrap=True,
        )
    where = paths.REPORT.resolve() if paths.REPORT.is_file() else "not there yet: dvc repro report"
    console.print(f"Report: {where}", soft_wrap=True, highlight=False, markup=False)
    if said := dict(headline(results)).get("Advice"):  # last, as it is what the run is for
        console.print(f"Advice: {said}", soft_wrap=True, highlight=False, markup=False)


def _print(console: Console, title: str, grid: tables.Grid, value: str) -> None:
    table = Table()
    table.add_column("method")
    for eta in grid.etas:
        table.add_column(f"η = {eta}", justify="right")
    for label in grid.rows:
        rows = grid.placed(label)
        table.add_row(label, *(_value(row, value) if row else "" for row in rows))
        if any(getattr(row, "exact_match", None) is not None for row in rows):
            exact = (percent(row.exact_match) if row else "" for row in rows)
            table.add_row(f"{label}, exact match", *exact)
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    console.print(table)


def _print_written(console: Console, group: Sequence[str], rows: Sequence[Row]) -> None:
    table = Table()
    table.add_column("method")
    for name in ("η", "BLEU", "chrF++", "TER", "entities"):
        table.add_column(name, justify="right")
    for row in rows:
        more = (row.chrf, row.ter, row.entity_recall)
        table.add_row(row.method, row.eta, _value(row, "bleu"), *map(percent, more))
    told = f"the source as it is {percent(rows[0].copied)}; one reference against the others "
    title = f"{group_text(group)}: BLEU, % ({told}{percent(rows[0].human)})"
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    console.print(table)


def _value(row: Any, name: str) -> str:
    value = getattr(row, name)
    return "missing" if value is None else percent(value, getattr(row, f"{name}_sd"))
