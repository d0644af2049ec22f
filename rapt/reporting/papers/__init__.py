"""The tables and figures of the papers, each with what it prints beside what ran here."""

from __future__ import annotations

from rapt.reporting.papers.layout import layouts
from rapt.reporting.papers.published_values import rows_beside
from rapt.reporting.papers.rows import ROWS, overhead
from rapt.reporting.papers.settings import differences
from rapt.reporting.papers.table import BEST_BLEU, DAGGER, PaperRow, PaperTable
from rapt.results.reader import Json, Results

__all__ = ["PaperRow", "PaperTable", "paper_table", "papers"]

# Notes on a figure, and on a table with such values.
UNPRINTED = "The paper prints no numbers for it, so there is no difference to show."
BEYOND = (
    f"{DAGGER}: beyond every published system, which reach a BLEU of about {BEST_BLEU}. It must be "
    "another metric."
)


def papers(results: Results, benchmarks: Json | None = None) -> list[PaperTable]:
    """Every table and figure, RAPT's first, for whatever part of the cells has run.

    Args:
        results: the plan and its cells.
        benchmarks: the content of reports/benchmarks.json. It depends on the machine, so a page
            that must not vary has none. None: RAPT's Table X shows the published numbers alone.
    """
    return [paper_table(results, name, benchmarks) for name in layouts()]


def paper_table(results: Results, name: str, benchmarks: Json | None = None) -> PaperTable:
    """One table or figure by its name, as rapt-table-2; arguments as of `papers`."""
    layout, measured = layouts()[name], benchmarks or {}
    if layout.rows is None:
        rows = rows_beside(results, layout)
    elif layout.rows == "overhead":
        rows = overhead(measured)
    else:
        rows = list(ROWS[layout.rows](results))
    if not rows and layout.empty:
        # The command, for each value of the one column that it names.
        named = [{column: v} for column in layout.columns for v in layout.empty.get(column, ())]
        rows = [PaperRow(factors, command=layout.empty["command"]) for factors in named or [{}]]
    if layout.compared in ("training", "attacks", "words"):
        differs = differences(results.params, layout.paper, layout.compared)
    else:
        differs = layout.compared.format(machine=_machine(measured))
    notes = [
        layout.note,
        UNPRINTED if layout.place.startswith("Figure") else None,
        BEYOND if any(row.beyond for row in rows) else None,
    ]
    return PaperTable(
        name=name,
        title=layout.title,
        source=f"{layout.paper.title}, {layout.place}",
        unit=layout.unit,
        differs=differs,
        columns=tuple(layout.columns),
        rows=tuple(rows),
        note=" ".join(filter(None, notes)).format(draws=results.params.channel.draws) or None,
    )


def _machine(benchmarks: Json) -> str:
    machine = benchmarks.get("machine")
    return f"{machine['cores']} cores of {machine['cpu']}" if machine else "the machine it ran on"
