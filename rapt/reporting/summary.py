"""The results in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rapt.params import Params
from rapt.plan import sorted_etas
from rapt.reporting import tables
from rapt.reporting.cells import load
from rapt.reporting.outs import REPORT
from rapt.reporting.text import attack_text, count, group_text, listing, percent, span


def print_results(params: Params) -> None:
    """Print the utility and privacy tables of what there is, and where the report lies."""
    results, console = load(params), Console()
    utility, privacy = tables.utility(results), tables.privacy(results)
    for group in tables.groups(utility):
        own = [row for row in utility if row.on_grid and row.group == group]
        floor = span(row.majority for row in own)
        title = f"{group_text(group)}: accuracy, % (floor {floor})"
        console.print(_grid(title, own, "accuracy"))
    for row in utility:
        if not row.on_grid:
            console.print(
                f"study {row.cell}: accuracy, % {_value(row, 'accuracy')} "
                f"({group_text(row.group)} · {row.method}, η = {row.eta})"
            )
    for group in tables.groups(privacy):
        own_attack = [row for row in privacy if row.group == group]
        floor = span(row.majority for row in own_attack)
        doubts = "".join(
            f"; {word} with {listing(names)}"
            for word in ("broken", "unproven")
            if (names := tables.doubted(own_attack, word))
        )
        title = f"{attack_text(*group)}: empirical privacy, % (attack's floor {floor}{doubts})"
        console.print(_grid(title, own_attack, "empirical_privacy"))
    if missing := results.missing():
        console.print(
            f"{count(len(missing), 'cell')} not run yet; the first: {missing[0].plan.command}",
            style="yellow",
            soft_wrap=True,
        )
    where = Path(REPORT).resolve() if REPORT.is_file() else "not there yet: dvc repro report"
    console.print(f"Report: {where}", soft_wrap=True, highlight=False)


def _grid(title: str, rows: Sequence[Any], value: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("method")
    etas = sorted_etas(list({row.eta for row in rows}))
    for eta in etas:
        table.add_column("inf (unprotected)" if eta == "inf" else f"η = {eta}", justify="right")
    at = {(row.label, row.eta): row for row in rows}
    for label in dict.fromkeys(row.label for row in rows):
        table.add_row(label, *(_value(at[label, eta], value) for eta in etas))
    return table


def _value(row: Any, name: str) -> str:
    value = getattr(row, name)
    return "missing" if value is None else percent(value, getattr(row, f"{name}_sd"))
