"""The tables and figures of the papers, each with what it prints beside what ran here."""

from __future__ import annotations

from rapt.reporting.papers import qu, rapt_paper
from rapt.reporting.papers.table import PaperRow, PaperTable
from rapt.results.reader import Json, Results

__all__ = ["PaperRow", "PaperTable", "papers"]


def papers(results: Results, benchmarks: Json | None = None) -> list[PaperTable]:
    """Every table and figure, RAPT's first, for whatever part of the cells has run.

    Args:
        results: the plan and its cells.
        benchmarks: the content of reports/benchmarks.json, which belongs to a machine and so to no
            page that must not vary; None: RAPT's Table X stands with the published numbers alone.
    """
    return [*rapt_paper.tables_of(results, benchmarks), *qu.tables_of(results)]
