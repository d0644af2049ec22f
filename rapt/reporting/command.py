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

BENCHMARKS = Path("reports/benchmarks.json")
# Before it the stamp goes: after the page's last section.
END = "</main>"
# The stages that ask for adapters.
ADAPTED = ("train", "probe", "denoise", "membership")


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
        benchmarks = files.read_json(BENCHMARKS) if BENCHMARKS.is_file() else None
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
    sweep, on_grid = params.sweep, [cell for cell in found if cell.kind != "study"]

    def kept(given: list[str], factor: str, *stages: str) -> list[str]:
        named = {
            cell.factors[factor] for cell in on_grid if cell.stage.removesuffix("-clean") in stages
        }
        return [name for name in given if name in named]

    everywhere = tuple(cell.stage.removesuffix("-clean") for cell in on_grid)
    attacks = ("probe", "invert", "infer", "recognize")
    studies = {name: s for name, s in params.studies.items() if name in {c.cell for c in found}}
    used = {cell.factors["task"] for cell in found}
    narrow = sweep.model_copy(
        update={
            "tasks": [name for name in sweep.tasks if name in used],
            "train": kept(sweep.train, "task", *ADAPTED),
            "invert": kept(sweep.invert, "task", "invert", "invert-channel"),
            "infer": kept(sweep.infer, "task", "infer"),
            "recognize": kept(sweep.recognize, "task", "recognize"),
            "backbones": kept(sweep.backbones, "backbone", *ADAPTED),
            "tuners": kept(sweep.tuners, "tuner", *ADAPTED),
            "probes": kept(sweep.probes, "tuner", *ADAPTED),
            "methods": kept(sweep.methods, "method", *everywhere),
            "etas": kept(sweep.etas, "eta", *everywhere),
            "tune_at": kept(sweep.tune_at, "eta", "train", "denoise", "membership"),
            "attacked": kept(sweep.attacked, "method", *attacks),
            "channels": kept(sweep.channels, "method", "denoise", "invert-channel"),
            "denoisers": kept(sweep.denoisers, "denoiser", "denoise"),
            "inversions": kept(sweep.inversions, "attack", "invert"),
            "channel_inversions": kept(sweep.channel_inversions, "attack", "invert-channel"),
            "inferences": kept(sweep.inferences, "attack", "infer"),
            "memberships": kept(sweep.memberships, "attack", "membership"),
            "recognitions": kept(sweep.recognitions, "attack", "recognize"),
        }
    )
    return params.model_copy(update={"sweep": narrow, "studies": studies})


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
