"""Draw the packages of rapt/ and their imports into docs/architecture.svg.

    python docs/architecture.py

Modules directly in rapt/ are left out: they belong to no package. Imports for types alone are, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]
BOX = (130, 72)  # the space of one package
STYLE = """<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 8 4 0 8Z" fill="#7a869a"/>
</marker>
</defs>
<style>
line { stroke: #7a869a; stroke-width: 1.3; marker-end: url(#tip) }
rect { fill: #e8edf6; stroke: #4a5a78 }
text { font: 14px sans-serif; text-anchor: middle; fill: #1d2433 }
</style>"""


def rooms() -> nx.DiGraph:
    """The graph of packages: an edge where a module of the first imports one of the second."""
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


def svg(graph: nx.DiGraph) -> str:
    """Draw the graph, each package above those that it imports, without implied edges."""
    edges = nx.transitive_reduction(graph)
    layers = list(nx.topological_generations(edges.reverse()))[::-1]
    width = BOX[0] * max(map(len, layers))
    place: dict[str, tuple[float, float]] = {}
    for y, layer in enumerate(layers):

        def middle(name: str) -> tuple[float, str]:
            """Where the packages are that import this one."""
            above = [place[other][0] for other in edges.predecessors(name) if other in place]
            return (sum(above) / len(above) if above else width / 2), name

        for x, name in enumerate(sorted(layer, key=middle)):
            place[name] = ((x + 0.5) * width / len(layer), (y + 0.5) * BOX[1])
    lines = [
        f'<line x1="{place[a][0]:.0f}" y1="{place[a][1] + 16:.0f}" '
        f'x2="{place[b][0]:.0f}" y2="{place[b][1] - 20:.0f}"/>'
        for a, b in sorted(edges.edges)
    ]
    boxes = [
        f'<rect x="{x - 50:.0f}" y="{y - 16:.0f}" width="100" height="32" rx="4"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}">{name}</text>'
        for name, (x, y) in sorted(place.items())
    ]
    size = f"{width:.0f} {BOX[1] * len(layers):.0f}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">'
    return "\n".join([head, STYLE, *lines, *boxes, "</svg>", ""])


if __name__ == "__main__":
    (ROOT / "docs/architecture.svg").write_text(svg(rooms()))
