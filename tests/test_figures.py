"""The figures of the pages are those of their files: docs/figures.py."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

FIGURES: dict[str, Any] = runpy.run_path(str(ROOT / "docs/figures.py"))
PAGES = FIGURES["pages"]()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_has_the_figures_of_the_files(path: Path) -> None:
    page = path.read_text()
    assert FIGURES["filled"](page) == page, "Run: python docs/figures.py"
    assert len(FIGURES["TABLE"].findall(page)) == page.count("<!-- table ")


def test_the_figures_are_found() -> None:
    marked = {path.name for path in PAGES if "<!-- " in path.read_text()}
    assert {"README.md", "privatize.md", "attacks.md", "benchmarks.md", "workers.md"} <= marked


def test_a_stale_table_is_replaced() -> None:
    page = "<!-- table readme -->\n{}<!-- /table -->"
    assert FIGURES["filled"](page.format("| old |\n")) == FIGURES["filled"](page.format(""))
    assert "| PCT2T | " in FIGURES["filled"](page.format(""))


@pytest.mark.parametrize(
    ("file", "place", "shown"),
    [
        ("large.json", "memory_mib > 1 > peak .0", "538"),
        ("sst2-minilm/trainer.json", "accuracy > Transformers Trainer %", "84.1"),
        ("two_views.json", "words > both %±", "62.8 (61.9 to 63.8)"),
        ("providers/results.json", "utility > backbone=mpnet, eta=inf > accuracy %±", "86.7"),
    ],
)
def test_a_figure_is_at_its_place_or_the_mean_of_a_list(file: str, place: str, shown: str) -> None:
    found = FIGURES["_with_figures"](f"evidence/{file}", f"of [{place}] here")
    assert found.startswith(f"of {shown}") and found.endswith(" here")


def test_a_place_that_is_not_there_is_named() -> None:
    with pytest.raises(
        SystemExit, match=r"large\.json: got no 'peek', expected memory_mib > 0 > peek"
    ):
        FIGURES["_with_figures"]("evidence/large.json", "[memory_mib > 0 > peek .0]")
    with pytest.raises(SystemExit, match=r"docs/tables\.yaml: got no table 'another'"):
        FIGURES["filled"]("<!-- table another -->\n<!-- /table -->")


def test_each_planned_table_is_on_a_page() -> None:
    shown = {mark[1] for path in PAGES for mark in FIGURES["TABLE"].findall(path.read_text())}
    assert set(FIGURES["TABLES"]) <= shown


def test_the_tables_on_sst2_are_rows_of_the_results() -> None:
    results = [path.read_text() for path in (ROOT / "evidence").glob("*/results.md")]
    rows = {line for page in results for line in page.splitlines()}
    page = (ROOT / "evidence/sst2.md").read_text()
    quoted = [
        line
        for line in page.splitlines()
        if line.startswith(("| sst2", "| movies", "| happydb", "| task"))
    ]
    assert len(quoted) > 40
    assert not [line for line in quoted if line not in rows]
