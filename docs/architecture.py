"""Draw the rooms of rapt/ and what imports what, for docs/architecture.md.

    python docs/architecture.py

Modules directly in rapt/ are left out: they belong to no room. Imports for types alone are, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]


def rooms() -> nx.DiGraph:
    """The graph of rooms: an edge where a module of the first imports one of the second."""
    graph = nx.DiGraph()
    for module in sorted((ROOT / "rapt").glob("*/**/*.py")):
        room = module.relative_to(ROOT / "rapt").parts[0]
        graph.add_node(room)
        graph.add_edges_from((room, other) for other in _imported(module) if other != room)
    return graph


def _imported(module: Path) -> Iterator[str]:
    tree = ast.parse(module.read_text())
    typing = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in set(ast.walk(tree)) - typing:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                package, *parts = name.split(".")
                if package == "rapt" and (ROOT / "rapt" / parts[0]).is_dir():
                    yield parts[0]


def mermaid(graph: nx.DiGraph) -> str:
    """The graph without the edges that others imply, in Mermaid's language."""
    edges = sorted(nx.transitive_reduction(graph).edges)
    return "\n".join(["graph TD", *(f"    {a} --> {b}" for a, b in edges)])


if __name__ == "__main__":
    print(mermaid(rooms()))
