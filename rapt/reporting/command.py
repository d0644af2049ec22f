"""`rapt report`: a copy of the page with a stamp."""

from __future__ import annotations

from pathlib import Path

from rapt import params, paths
from rapt.reporting import provenance
from rapt.reporting.figures import figures
from rapt.reporting.page import render
from rapt.results import reader
from rapt.utils import files
from rapt.utils.errors import RaptError, check_place

# Before it the stamp goes: after the page's last section.
END = "</main>"


def report(out: Path) -> str:
    """Write a copy of the page, with commit, machine and each cell's seconds, outside DVC.

    Returns:
        Where it lies, for the user.

    Raises:
        RaptError: `out` is DVC's, or in no folder that exists.
    """
    if Path("reports").resolve() in out.resolve().parents:
        raise RaptError(
            f"{out}: got a path in reports, expected one outside it, as `dvc repro report` owns it."
        )
    if out.parent != paths.STATE:
        check_place("OUT", out)
    results = reader.load(params.load())
    benchmarks = files.read_json(paths.BENCHMARKS) if paths.BENCHMARKS.is_file() else {}
    html = render(results, figures(results))
    html = html.replace(END, provenance.section(results, benchmarks) + END, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(out, [html.encode()])
    return f"{out.resolve()}"
