"""The rooms of the library: their imports, and the picture of them."""

from __future__ import annotations

import runpy

import networkx as nx

from tests.conftest import ROOT

ARCHITECTURE = runpy.run_path(str(ROOT / "docs/architecture.py"))
ROOMS: nx.DiGraph = ARCHITECTURE["rooms"]()


def test_the_rooms_import_one_another_in_no_circle() -> None:
    assert len(ROOMS) > 10
    assert nx.is_directed_acyclic_graph(ROOMS)


def test_the_page_shows_the_imports_as_they_are() -> None:
    assert ARCHITECTURE["mermaid"](ROOMS) in (ROOT / "docs/architecture.md").read_text()


def test_each_room_says_what_belongs_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    assert not [room for room in ROOMS if f"| `{room}` |" not in page]
