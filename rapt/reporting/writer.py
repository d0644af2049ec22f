"""The outs of the report stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rapt import paths
from rapt.grid import order
from rapt.reporting import published, tables, utility_table, word_tables
from rapt.reporting.claims import Claim, claims
from rapt.reporting.comparisons import Difference, differences
from rapt.reporting.figures import figures
from rapt.reporting.leaderboard import Entry, leaderboard
from rapt.reporting.page import render
from rapt.reporting.tables import Privacy
from rapt.reporting.tex import to_tex
from rapt.reporting.text import percent, span
from rapt.reporting.utility_table import Utility
from rapt.reporting.written import Written, written
from rapt.results.reader import Results
from rapt.utils import files


def write(results: Results) -> None:
    """Write the page, tables, figures, plots and metrics; equal results give equal bytes."""
    drawn = figures(results)
    _write_all(paths.TABLES, _tables(results))
    _write_all(
        paths.FIGURES,
        {f"{f.name}.svg": f.svg for f in drawn} | {f"{f.name}.png": f.png for f in drawn},
    )
    _write_all(paths.PLOTS, _plots(results))
    files.write_json(paths.METRICS, tables.metrics(results))
    with files.atomic(paths.REPORT) as scratch:
        scratch.write_text(render(results, drawn))


def _tables(results: Results) -> dict[str, str]:
    utility, privacy = utility_table.utility(results), tables.privacy(results)
    of_name: dict[str, tuple[Sequence[Any], Iterable[str]]] = {
        "utility": (utility, Utility.__annotations__),
        "privacy": (privacy, tables.PRIVACY),
        "differences": (differences(results), Difference.__annotations__),
        "written": (written(results), Written.__annotations__),
        "leaderboard": (leaderboard(results), Entry.__annotations__),
        **{name: (of(results), columns) for name, (of, columns) in word_tables.STATISTICS.items()},
        "claims": (claims(results), Claim.__annotations__),
    }
    beside = published.beside(results)
    return {
        **{f"{name}.csv": tables.to_csv(*of) for name, of in of_name.items()},
        "utility.tex": _utility_tex(utility),
        "privacy.tex": _privacy_tex(privacy),
        "published.csv": beside.round(6).to_csv(index=False),
        "published.tex": _published_tex(beside),
    }


def _utility_tex(rows: Sequence[Utility]) -> str:
    return to_tex(
        ["task", "backbone", "tuner", "method", "η", "accuracy", "seeds", "baseline", "replaced"],
        [
            [
                *(row.task, row.backbone, row.tuner, row.label, row.eta),
                percent(row.accuracy, row.accuracy_sd),
                str(row.seeds or "–"),
                percent(row.majority),
                percent(row.replaced_share),
            ]
            for row in rows
        ],
        above="Accuracy on the equally privatized test split, in percent.",
        left=5,
    )


def _privacy_tex(rows: Sequence[Privacy]) -> str:
    return to_tex(
        [
            "attack",
            "task",
            "target",
            "method",
            "η",
            "empirical privacy",
            "95 % interval",
            "attack",
            "clean",
            "baseline",
        ],
        [
            [
                *(row.attack, row.task, row.target, row.label, row.eta),
                _empirical(row),
                span((row.empirical_privacy_low, row.empirical_privacy_high)),
                percent(row.attack_accuracy),
                percent(row.clean_accuracy),
                percent(row.majority),
            ]
            for row in rows
        ],
        above="Empirical privacy, and what the attack learns, on clean text too, in percent.\n"
        "Broken: on clean text the attack does not beat its baseline. Unproven: not run there.",
        left=5,
    )


def _published_tex(beside: pd.DataFrame) -> str:
    factors = ["source", "table", *published.FACTORS]
    return to_tex(
        [*factors, "published", "its η", "ours", "seeds", "difference"],
        [
            [*(getattr(row, name) for name in factors), shown, row.published_eta, *ours]
            for row in beside.itertuples()
            for shown, *ours in [published.as_printed(row)]
        ],
        above="The papers' numbers beside ours, in percent where no unit is named.\n"
        "*: of another setting, for orientation alone. †: a BLEU beyond every known system.",
        left=len(factors),
    )


def _empirical(row: Privacy) -> str:
    shown = percent(row.empirical_privacy, row.empirical_privacy_sd)
    return shown if row.empirical_privacy is None or not row.doubt else f"{shown} ({row.doubt})"


def _plots(results: Results) -> dict[str, str]:
    """Return tidy tables for `dvc plots`: η as a category, a series for each group and method.

    A broken attack has no series; an unproven one is labelled so.
    """
    rows: dict[str, tuple[Sequence[Any], str]] = {
        "utility": (utility_table.utility(results), "accuracy"),
        "privacy": (tables.drawn(tables.privacy(results)), "empirical_privacy"),
    }
    found = {}
    for name, (own, metric) in rows.items():
        records = [
            vars(row) | {"mean": getattr(row, metric), "series": _series(row)}
            for row in sorted(own, key=lambda row: order(row.eta))
            if getattr(row, metric) is not None
        ]
        found[f"{name}.csv"] = tables.to_csv(records, ("eta", "method", "mean", "series"))
    return found


def _series(row: Utility | Privacy) -> str:
    doubt = row.doubt if isinstance(row, Privacy) else None
    return " ".join([*row.group, row.label, *([f"({doubt})"] if doubt else [])])


def _write_all(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    with files.atomic(folder) as scratch:
        scratch.mkdir()
        for name, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            (scratch / name).write_bytes(data)
