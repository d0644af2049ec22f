"""The tables and figures of the papers, each with what it prints beside what ran here."""

from __future__ import annotations

from rapt.reporting.papers.layout import Layout, layouts
from rapt.reporting.papers.published_values import rows_beside
from rapt.reporting.papers.rows import ROWS, overhead
from rapt.reporting.papers.setup_differences import differences
from rapt.reporting.papers.table import PaperRow, PaperTable
from rapt.results.reader import Json, Results

__all__ = ["PaperRow", "PaperTable", "paper_table", "papers"]

# Note on a figure.
UNPRINTED = "The paper prints no numbers for it, so there is no difference to show."


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
    notes = [layout.note] if layout.note else []
    if layout.place.startswith("Figure"):
        notes.append(UNPRINTED)
    note = " ".join(notes).format(draws=results.params.channel.draws)
    if layout.compared in ("training", "attacks", "words"):
        differs = differences(results.params, layout.paper, layout.compared)
    else:
        differs = layout.compared.format(machine=_machine(measured))
    return PaperTable(
        name=name,
        title=layout.title,
        source=f"{layout.paper.title}, {layout.place}",
        unit=layout.unit,
        differs=differs,
        columns=tuple(layout.columns),
        rows=tuple(_rows(results, layout, measured)) or _empty(layout),
        note=note or None,
    )


def _rows(results: Results, layout: Layout, benchmarks: Json) -> list[PaperRow]:
    if layout.rows is None:
        return rows_beside(results, layout)
    if layout.rows == "overhead":
        return overhead(benchmarks)
    return list(ROWS[layout.rows](results))


def _empty(layout: Layout) -> tuple[PaperRow, ...]:
    """Return rows that say what runs a table, one for each value that a preset has."""
    if not layout.empty:
        return ()
    command = layout.empty["command"]
    for column in layout.columns:
        if column in layout.empty:
            return tuple(PaperRow({column: v}, command=command) for v in layout.empty[column])
    return (PaperRow({}, command=command),)


def _machine(benchmarks: Json) -> str:
    machine = benchmarks.get("machine")
    return f"{machine['cores']} cores of {machine['cpu']}" if machine else "the machine it ran on"
