"""The papers' tables beside ours: golden on fixed cells."""

from __future__ import annotations

import re
from pathlib import Path

from rapt.params import Params
from rapt.reporting.papers import UNPRINTED, PaperTable
from rapt.reporting.papers.table import to_csv
from tests.reporting.papers.conftest import found

GOLDEN = Path(__file__).parent / "golden"


def golden(tables: dict[str, PaperTable], name: str) -> None:
    """Compare with a committed file; where it is meant to change, write what is printed there."""
    text = "".join(f"# {t.name}: {t.differs}\n{to_csv(t)}" for t in tables.values())
    assert text == (GOLDEN / name).read_text(encoding="utf-8"), text


def test_the_demos_tables_are_the_golden_ones(whole: Params) -> None:
    golden(found(whole), "demo.txt")


def test_the_papers_own_setting_half_finished_is_the_golden_one(on_bert: Params) -> None:
    names = ("rapt-table-2", "rapt-table-3", "rapt-table-6", "rapt-figure-7", "qu-table-3")
    tables = found(on_bert)
    golden({name: tables[name] for name in names}, "bert.txt")


def test_a_figure_says_that_nothing_is_printed_and_shows_ours_or_what_runs_it(
    whole: Params,
) -> None:
    figures = {name: table for name, table in found(whole).items() if "figure" in name}
    shown = {"rapt": set(range(4, 11)), "qu": {3, 4}}
    for paper, numbers in shown.items():
        names = " ".join(name for name in figures if name.startswith(paper))
        assert {int(n) for n in re.findall(r"\d+", names)} == numbers
    for table in figures.values():
        assert table.note and table.note.endswith(UNPRINTED)
        assert table.rows
        for row in table.rows:
            assert row.published is None
            assert row.mean is not None or row.command
