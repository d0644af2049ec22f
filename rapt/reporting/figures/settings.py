"""Figures of RAPT over what is no η: how many plain tokens, and which categories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

from rapt.grid import sorted_etas
from rapt.reporting.figures.drawing import Figure, finish, line, panel, slug, spoken
from rapt.reporting.papers import paper_table
from rapt.reporting.papers.table import PaperRow, PaperTable
from rapt.reporting.text import group_text, unproven
from rapt.results.reader import Results

# With fewer settings there is no curve, and the table beside says it all.
FEWEST = 3
# Letters of a line below the axis.
LONGEST = 20


def settings(results: Results) -> Iterator[Figure]:
    """One panel for each group that is tuned, then for each attack and target."""
    lengths = paper_table(results, "rapt-figure-5")
    yield from _over_settings(lengths, ("task", "backbone", "tuner"), "plain tokens")
    # Categories have no order that a line could follow.
    attacked = ("attack", "task", "target")
    categories = paper_table(results, "rapt-figures-6-8-10")
    yield from _over_settings(categories, attacked, "categories replaced", width=0)


def _over_settings(
    table: PaperTable, held: Sequence[str], title: str, width: float | None = None
) -> Iterator[Figure]:
    ran = [row for row in table.rows if row.mean is not None]
    for group in dict.fromkeys(tuple(row.factors[name] for name in held) for row in ran):
        of_group = [row for row in ran if tuple(row.factors[name] for name in held) == group]
        own = [row for row in of_group if row.remark != "broken"]
        names = sorted(dict.fromkeys(row.factors["setting"] for row in own), key=_number)
        if len(names) >= FEWEST:
            yield _panel(table, group, names, own, title, unproven(own[0].remark), width)


def _number(setting: str) -> int:
    """Categories stay as they are listed."""
    return int(setting) if setting.isdigit() else 0


def _panel(
    table: PaperTable,
    group: tuple[str, ...],
    names: Sequence[str],
    rows: Sequence[PaperRow],
    title: str,
    remark: str,
    width: float | None,
) -> Figure:
    with panel(height=4.2) as (canvas, axes):
        for number, eta in enumerate(sorted_etas(list({row.factors["eta"] for row in rows}))):
            own = sorted(
                (names.index(row.factors["setting"]), row.mean or 0.0, row.sd or 0.0)
                for row in rows
                if row.factors["eta"] == eta
            )
            x, mean, sd = zip(*own, strict=True)
            line(axes, number, f"η {eta}", x, mean, None, sd, width=width)
        turned: Any = {} if names[0].isdigit() else {"rotation": 45, "ha": "right", "fontsize": 8}
        axes.set_xticks(range(len(names)), [fill(name, LONGEST) for name in names], **turned)
        axes.set_xlabel(title)
        axes.set_ylabel(table.unit)
        axes.set_title(group_text(group))
        return finish(
            canvas,
            "papers",
            slug(f"{table.name}-{'-'.join(group)}"),
            f"As {table.source}: {table.unit}, by {title}, {group_text(group)}.{remark}",
            spoken(
                table.title,
                {f"{r.factors['setting']}, η {r.factors['eta']}": (r.mean,) for r in rows},
                scale=1,
            ),
        )
