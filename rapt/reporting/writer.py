"""The outs of the report stage, and a stamped copy of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from rapt import params, paths
from rapt.grid import privacy_rank
from rapt.reporting import provenance, published, tables, utility_table
from rapt.reporting.claims import PaperClaim, claims
from rapt.reporting.comparisons import DIFFERENCE, differences
from rapt.reporting.figures import figures
from rapt.reporting.leaderboard import LEADERBOARD, leaderboard
from rapt.reporting.measured import MEASURED, measured
from rapt.reporting.page import render
from rapt.reporting.rows import Row, frame, to_csv
from rapt.reporting.text import MINUS, NBSP, PLUS_MINUS, percent, span
from rapt.reporting.word_tables import COLUMNS, statistics
from rapt.reporting.written import WRITTEN, written
from rapt.results.reader import Results, load
from rapt.utils import files
from rapt.utils.errors import RaptError, check_place

# What a bare article shows as it stands: other letters need packages, or fonts.
KNOWN = frozenset("’‘”“—…€£§°×" + "".join(set(map(chr, range(0xC0, 0x100))) - set("ÐÞð÷þ")))
# Rows that fit on one page of an article; longer tables break across pages.
OF_A_PAGE = 40
SPECIAL = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "[": "{[}",  # at a row's beginning it would be an option of the row before
        "η": r"$\eta$",
        "·": r"$\cdot$",
        "†": r"$\dagger$",
        "–": "--",
        NBSP: "~",
        MINUS: "$-$",
        PLUS_MINUS: r"$\pm$",
    }
)

# Before it the stamp of a copy goes: after the page's last section.
END = "</main>"
NUMBERS = ("published", "ours", "seeds", "difference")


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
    results = load(params.load())
    benchmarks = files.read_json(paths.BENCHMARKS) if paths.BENCHMARKS.is_file() else {}
    html = render(results, figures(results))
    html = html.replace(END, provenance.section(results, benchmarks) + END, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(out, [html.encode()])
    return f"{out.resolve()}"


def _tables(results: Results) -> dict[str, str]:
    return {
        **{f"{name}.csv": to_csv(table) for name, table in frames(results).items()},
        "utility.tex": _utility_tex(utility_table.utility(results)),
        "privacy.tex": _privacy_tex(tables.privacy(results)),
        "published.csv": to_csv(published.joined(results)),
        **{
            f"{source}-table-{table}.tex": _published_tex(own, source, table, factors)
            for source, table, factors, own in published.by_table(results)
        },
    }


def frames(results: Results) -> dict[str, pd.DataFrame]:
    """Return the tidy tables of the experiment by name."""
    return {
        "utility": frame(utility_table.utility(results), utility_table.UTILITY),
        "privacy": frame(tables.privacy(results), tables.PRIVACY),
        "differences": frame(differences(results), DIFFERENCE),
        "written": frame(written(results), WRITTEN),
        **({"measured": frame(rows, MEASURED)} if (rows := measured(results)) else {}),
        "leaderboard": frame(leaderboard(results), LEADERBOARD),
        **{name: frame(statistics(results)[name], columns) for name, columns in COLUMNS.items()},
        "claims": frame([vars(claim) for claim in claims(results)], PaperClaim.__annotations__),
    }


def _utility_tex(rows: Sequence[Row]) -> str:
    shown = {
        **_factors(rows, "task", "backbone", "tuner"),
        "accuracy": [percent(row.accuracy, row.accuracy_sd) for row in rows],
        "seeds": [str(row.seeds or "–") for row in rows],
        "baseline": [percent(row.majority) for row in rows],
        "replaced": [percent(row.replaced_share) for row in rows],
    }
    above = "Accuracy on the equally privatized test split, in percent."
    return to_tex(pd.DataFrame(shown), above=above, left=5)


def _privacy_tex(rows: Sequence[Row]) -> str:
    shown = {
        **_factors(rows, "attack", "task", "target"),
        "empirical privacy": [
            percent(row.empirical_privacy, row.empirical_privacy_sd)
            + (f" ({row.doubt})" if row.doubt and row.empirical_privacy is not None else "")
            for row in rows
        ],
        "95 % interval": [
            span((row.empirical_privacy_low, row.empirical_privacy_high)) for row in rows
        ],
        "accuracy": [percent(row.attack_accuracy) for row in rows],
        "clean": [percent(row.clean_accuracy) for row in rows],
        "baseline": [percent(row.majority) for row in rows],
    }
    above = (
        "Empirical privacy, and what the attack learns, on clean text too, in percent.\n"
        "Broken: on clean text the attack does not beat its baseline. Unproven: not run there."
    )
    return to_tex(pd.DataFrame(shown), above=above, left=5)


def _factors(rows: Sequence[Row], *names: str) -> dict[str, list[str]]:
    found = {name: [getattr(row, name) for row in rows] for name in names}
    return found | {"method": [row.label for row in rows], "η": [row.eta for row in rows]}


def _published_tex(own: pd.DataFrame, source: str, table: str, factors: list[str]) -> str:
    numbers = [published.as_printed(row) for row in own.itertuples()]
    shown = own[factors].assign(**dict(zip(NUMBERS, zip(*numbers, strict=True), strict=True)))
    shown.insert(len(factors) + 1, "its η", own["published_eta"])
    above = (
        f"{published.SOURCES[source]}, Table {table}, beside ours, in percent where no unit is "
        "named.\n*: of another setting, for orientation alone. †: a BLEU beyond every known system."
    )
    return to_tex(shown, above=above, left=len(factors))


def to_tex(table: pd.DataFrame, *, above: str, left: int) -> str:
    r"""A tabular with booktabs' rules, to be read by `\input`; a longtable where it is long.

    Args:
        table: of words and formatted numbers.
        above: what the table is, as a comment over it, line by line.
        left: how many columns are words, before those that are numbers.
    """
    comments = "".join(f"% {line}\n" for line in above.splitlines())
    return comments + table.rename(columns=_escaped).map(_escaped).to_latex(
        index=False,
        escape=False,
        column_format="l" * left + "r" * (len(table.columns) - left),
        longtable=len(table) > OF_A_PAGE,
    )


def _escaped(text: str) -> str:
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    """Return a character as LaTeX writes it, or its code (U+4E2D) if LaTeX cannot."""
    written = character.translate(SPECIAL)
    if character.isascii() or written != character or character in KNOWN:
        return written
    return rf"\texttt{{U+{ord(character):04X}}}"


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
            for row in sorted(own, key=lambda row: privacy_rank(row.eta))
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
