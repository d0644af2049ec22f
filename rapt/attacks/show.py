"""The attacks in the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from rapt.attacks import ATTACKS
from rapt.attacks.base import Attack, Inversion, Linkage, Membership
from rapt.attacks.entities import Ner


def print_attacks() -> None:
    """Print what every attack is, what its attacker knows, and its parameters."""
    console = Console(highlight=False)
    for attack in as_json():
        grid = Table.grid(padding=(0, 2))
        for fact in ("source", "knows", "listed in"):
            grid.add_row(fact, attack[fact.replace(" ", "_")])
        for name, description in attack["parameters"].items():
            grid.add_row(name, description)
        console.print(f"[bold]{attack['name']}[/] {attack['summary']}")
        console.print(Padding(grid, (0, 0, 1, 2)))


def as_json() -> list[dict[str, Any]]:
    """Return the same for programs."""
    return [
        {
            "name": name,
            "summary": (kind.__doc__ or "").splitlines()[0],
            "source": kind.source,
            "knows": kind.attacker_knowledge,
            "listed_in": f"sweep.{_list(kind)}",
            "parameters": {n: f.description for n, f in kind.model_fields.items() if n != "type"},
        }
        for name, kind in ATTACKS.items()
    ]


def _list(kind: type[Attack]) -> str:
    if issubclass(kind, Inversion):
        return "channel_inversions" if kind.reads_channel else "inversions"
    if issubclass(kind, Linkage):
        return "linkages"
    if issubclass(kind, Ner):
        return "recognitions"
    return "memberships" if issubclass(kind, Membership) else "inferences"
