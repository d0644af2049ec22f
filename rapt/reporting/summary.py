"""The results in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from rapt import paths
from rapt.grid import sorted_etas
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.leaderboard import leaderboard
from rapt.reporting.text import attack_text, count, group_text, percent, span
from rapt.results.reader import load


def as_json(params: Params) -> dict[str, Any]:
    """The same for programs: a row for each cell, null where it has not run."""
    results = load(params)
    return {
        "utility": [asdict(row) for row in tables.utility(results)],
        "privacy": [
            {name: getattr(row, name) for name in tables.PRIVACY} for row in tables.privacy(results)
        ],
        "leaderboard": [asdict(row) for row in leaderboard(results)],
        "missing": [cell.plan.command for cell in results.missing()],
        "report": str(paths.REPORT.resolve()) if paths.REPORT.is_file() else None,
    }


def print_results(params: Params) -> None:
    """Print the utility and privacy tables of what there is, and where the report lies."""
    results, console = load(params), Console()
    utility, privacy = tables.utility(results), tables.privacy(results)
    for group in tables.groups(utility):
        own = [row for row in utility if row.on_grid and row.group == group]
        clean = next((_value(row, "accuracy") for row in own if row.unprotected), "not planned")
        told = (
            f"baseline {span(row.majority for row in own)}; nothing sent {percent(own[0].local)}; "
            f"clean text, unprotected {clean}"
        )
        _print(console, f"{group_text(group)}: accuracy, % ({told})", own, "accuracy")
    for row in utility:
        if not row.on_grid:
            console.print(
                f"study {row.cell}: accuracy, % {_value(row, 'accuracy')} "
                f"({group_text(row.group)} · {row.method}, η = {row.eta})"
            )
    for group in tables.groups(privacy):
        every = [row for row in privacy if row.group == group]
        clean, doubt = percent(every[0].clean_accuracy), tables.doubt(every)
        told = f"baseline {span(row.majority for row in every)}, attack on clean text {clean}"
        title = (
            f"{attack_text(*group)}: empirical privacy, % ({told}{f'; {doubt}' if doubt else ''})"
        )
        _print(console, title, every, "empirical_privacy")
    if missing := results.missing():
        console.print(
            f"{count(len(missing), 'cell')} not run yet; the first: {missing[0].plan.command}",
            style="yellow",
            soft_wrap=True,
        )
    where = paths.REPORT.resolve() if paths.REPORT.is_file() else "not there yet: dvc repro report"
    console.print(f"Report: {where}", soft_wrap=True, highlight=False)


def _print(console: Console, title: str, every: Sequence[Any], value: str) -> None:
    rows = [row for row in every if not row.unprotected]
    table = Table()
    table.add_column("method")
    etas = sorted_etas(list({row.eta for row in rows}))
    for eta in etas:
        table.add_column(f"η = {eta}", justify="right")
    at = {(row.label, row.eta): row for row in rows}
    for label in dict.fromkeys(row.label for row in rows):
        table.add_row(label, *(_value(at[label, eta], value) for eta in etas))
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    console.print(table)


def _value(row: Any, name: str) -> str:
    value = getattr(row, name)
    return "missing" if value is None else percent(value, getattr(row, f"{name}_sd"))
