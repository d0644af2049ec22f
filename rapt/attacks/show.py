"""The attacks in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from rapt.attacks import ATTACKS
from rapt.attacks.base import Attack, Inversion, Membership
from rapt.attacks.ner import Ner


def print_attacks() -> None:
    """Print what every attack is, what its attacker knows, and its parameters."""
    console = Console(highlight=False)
    for name, kind in ATTACKS.items():
        console.print(f"[bold]{name}[/] {(kind.__doc__ or '').splitlines()[0]}")
        console.print(Padding(_facts(kind), (0, 0, 1, 2)))


def _facts(kind: type[Attack]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_row("source", kind.source)
    grid.add_row("knows", kind.attacker_knowledge)
    grid.add_row("listed in", f"sweep.{_list(kind)}")
    for name, field in kind.model_fields.items():
        if name != "type":
            grid.add_row(name, field.description)
    return grid


def _list(kind: type[Attack]) -> str:
    if issubclass(kind, Inversion):
        return "channel_inversions" if kind.reads_channel else "inversions"
    if issubclass(kind, Ner):
        return "recognitions"
    return "memberships" if issubclass(kind, Membership) else "inferences"
