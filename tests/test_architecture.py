"""The packages of the library: their imports, the picture of them, and the page's paths."""

import re
import runpy

import networkx as nx
import pytest

from tests.conftest import ROOT

ARCHITECTURE = runpy.run_path(str(ROOT / "docs/architecture.py"))
PAGE = (ROOT / "docs/architecture.md").read_text()


@pytest.fixture(scope="module")
def rooms() -> nx.DiGraph:
    return ARCHITECTURE["rooms"]()


def test_the_packages_import_one_another_in_no_circle(rooms: nx.DiGraph) -> None:
    assert len(rooms) > 10
    assert nx.is_directed_acyclic_graph(rooms)


def test_the_picture_shows_the_imports_as_they_are(rooms: nx.DiGraph) -> None:
    drawn = (ROOT / "docs/architecture.svg").read_text()
    assert ARCHITECTURE["svg"](rooms) == drawn, "Run: python docs/architecture.py"
    assert "(architecture.svg)" in PAGE


def test_each_package_says_what_belongs_there(rooms: nx.DiGraph) -> None:
    assert not [room for room in rooms if f"| `{room}` |" not in PAGE]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:rapt|stages|docs)/[^` ]*)`", PAGE))))
def test_a_path_of_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()
