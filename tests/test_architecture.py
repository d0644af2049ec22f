"""The packages of the library: their imports, the picture of them, and the page's paths."""

from __future__ import annotations

import re
import runpy

import networkx as nx
import pytest

from tests.conftest import ROOT

ARCHITECTURE = runpy.run_path(str(ROOT / "docs/architecture.py"))
ROOMS: nx.DiGraph = ARCHITECTURE["rooms"]()
PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_packages_import_one_another_in_no_circle() -> None:
    assert len(ROOMS) > 10
    assert nx.is_directed_acyclic_graph(ROOMS)


def test_the_picture_shows_the_imports_as_they_are() -> None:
    drawn = (ROOT / "docs/architecture.svg").read_text()
    assert ARCHITECTURE["svg"](ROOMS) == drawn, "Run: python docs/architecture.py"
    assert "(architecture.svg)" in PAGE


def test_each_package_says_what_belongs_there() -> None:
    assert not [room for room in ROOMS if f"| `{room}` |" not in PAGE]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:rapt|stages|docs)/[^` ]*)`", PAGE))))
def test_a_path_of_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()
