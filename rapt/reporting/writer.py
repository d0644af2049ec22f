"""The outs of the report stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from rapt import paths
from rapt.grid import order
from rapt.reporting import published, tables, utility_table
from rapt.reporting.claims import Claim, claims
from rapt.reporting.comparisons import DIFFERENCE, differences
from rapt.reporting.figures import figures
from rapt.reporting.leaderboard import LEADERBOARD, leaderboard
from rapt.reporting.page import render
from rapt.reporting.rows import Row, frame, to_csv
from rapt.reporting.tex import to_tex
from rapt.reporting.text import percent, span
from rapt.reporting.word_tables import STATISTICS
from rapt.reporting.written import WRITTEN, written
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
    _write_all(paths.PLOTS, plots(results))
    files.write_json(paths.METRICS, tables.metrics(results))
    with files.atomic(paths.REPORT) as scratch:
        scratch.write_text(render(results, drawn))


def _tables(results: Results) -> dict[str, str]:
    beside = published.beside(results)
    return {
        **{f"{name}.csv": to_csv(table) for name, table in frames(results).items()},
        "utility.tex": _utility_tex(utility_table.utility(results)),
        "privacy.tex": _privacy_tex(tables.privacy(results)),
        "published.csv": to_csv(beside),
        "published.tex": _published_tex(beside),
    }


def frames(results: Results) -> dict[str, pd.DataFrame]:
    """Return the tidy tables of the experiment by name."""
    return {
        "utility": frame(utility_table.utility(results), utility_table.UTILITY),
        "privacy": frame(tables.privacy(results), tables.PRIVACY),
        "differences": frame(differences(results), DIFFERENCE),
        "written": frame(written(results), WRITTEN),
        "leaderboard": frame(leaderboard(results), LEADERBOARD),
        **{name: frame(of(results), columns) for name, (of, columns) in STATISTICS.items()},
        "claims": frame([vars(claim) for claim in claims(results)], Claim.__annotations__),
    }


def _utility_tex(rows: Sequence[Row]) -> str:
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


def _privacy_tex(rows: Sequence[Row]) -> str:
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


def _empirical(row: Row) -> str:
    shown = percent(row.empirical_privacy, row.empirical_privacy_sd)
    return shown if row.empirical_privacy is None or not row.doubt else f"{shown} ({row.doubt})"


def plots(results: Results) -> dict[str, str]:
    """Return tidy tables for `dvc plots`: η as a category, a series for each group and method.

    A broken attack has no series; an unproven one is labelled so.
    """
    rows = {
        "utility": (utility_table.utility(results), "accuracy"),
        "privacy": (tables.drawn(tables.privacy(results)), "empirical_privacy"),
    }
    found = {}
    for name, (own, metric) in rows.items():
        records = [
            row.but(mean=getattr(row, metric), series=_series(row))
            for row in sorted(own, key=lambda row: order(row.eta))
            if getattr(row, metric) is not None
        ]
        found[f"{name}.csv"] = to_csv(frame(records, ("eta", "method", "mean", "series")))
    return found


def _series(row: Row) -> str:
    doubt = getattr(row, "doubt", None)
    return " ".join([*row.group, row.label, *([f"({doubt})"] if doubt else [])])


def _write_all(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    with files.atomic(folder) as scratch:
        scratch.mkdir()
        for name, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            (scratch / name).write_bytes(data)
