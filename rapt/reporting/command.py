"""`rapt report`: a copy of the page, of some cells or with a stamp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from rapt import params, paths
from rapt.grid import PlannedCell, plan
from rapt.params import Params
from rapt.reporting import provenance
from rapt.reporting.figures import figures
from rapt.reporting.page import render
from rapt.reporting.papers import papers
from rapt.results import reader
from rapt.utils import files
from rapt.utils.errors import RaptError, did_you_mean

# Before it the stamp goes: after the page's last section.
END = "</main>"
# Lists of the sweep that have what the chosen cells have, by factor.
USED = {"tasks": "task", "methods": "method", "etas": "eta"}
# Lists that no cell depends on.
KEPT = ("embeddings", "layers")


def report(out: Path, *, cells: Sequence[str] | None = None, stamp: bool = False) -> str:
    """Write a copy of the page outside DVC; see `rapt report --help` for the options.

    Returns:
        Where it lies, for the user.

    Raises:
        RaptError: `out` is DVC's, or something chosen is no cell of the plan.
    """
    if Path("reports").resolve() in out.resolve().parents:
        raise RaptError(
            f"{out}: got a path in reports, expected one outside it, as `dvc repro report` owns it."
        )
    p = params.load()
    results = reader.load(narrowed(p, cells) if cells else p, p)
    html = render(results, figures(results))
    if stamp:
        benchmarks = files.read_json(paths.BENCHMARKS) if paths.BENCHMARKS.is_file() else None
        tables = {table.name: table for table in papers(results, benchmarks)}
        html = html.replace(END, provenance.section(results, tables["rapt-table-10"]) + END, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(out, [html.encode()])
    return f"{out.resolve()}"


def narrowed(params: Params, chosen: Sequence[str]) -> Params:
    """Params whose plan has the chosen cells, and those beside them that their tables need.

    A table has each of its methods at each of its η, so it may have more than was chosen.
    """
    planned = plan(params)
    found = [cell for pattern in chosen for cell in _matching(planned, pattern)]
    studies = {name: s for name, s in params.studies.items() if name in {c.cell for c in found}}
    sweep = params.sweep
    for field, factor in USED.items():
        used = {c.factors[factor] for c in found if c.kind != "study" or field == "tasks"}
        kept = [name for name in getattr(sweep, field) if name in used]
        sweep = sweep.model_copy(update={field: kept})
    narrow = params.model_copy(update={"sweep": sweep, "studies": studies})
    # Of the other lists goes whatever the chosen cells do without.
    needed = {cell.path for cell in found}
    others = [name for name in type(sweep).model_fields if name not in (*USED, *KEPT)]
    for field in others:
        for name in getattr(params.sweep, field):
            kept = [other for other in getattr(narrow.sweep, field) if other != name]
            sweep = narrow.sweep.model_copy(update={field: kept})
            less = narrow.model_copy(update={"sweep": sweep})
            if needed <= {cell.path for cell in plan(less)}:
                narrow = less
    return narrow


def _matching(planned: Iterable[PlannedCell], pattern: str) -> list[PlannedCell]:
    names = {f"{cell.kind}/{cell.cell}": cell for cell in planned}
    wanted = pattern.removeprefix(f"{paths.CELLS}/").removesuffix(".json")
    if found := [cell for name, cell in names.items() if fnmatchcase(name, wanted)]:
        return found
    hint = did_you_mean(get_close_matches(wanted, names, n=1, cutoff=0))
    raise RaptError(
        f"--cells: got {pattern!r}, expected KIND/CELL, with * and ?, of one of the {len(names)} "
        f"planned cells.{hint}"
    )
