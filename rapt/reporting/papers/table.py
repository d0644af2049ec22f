"""What every table and figure of the papers comes to: rows of factors, published and ours."""

from __future__ import annotations

from dataclasses import dataclass

from rapt.reporting import tables, tex
from rapt.reporting.text import MINUS, NBSP, PLUS_MINUS

# What stands beside the factors in a file.
CSV = ("unit", "published", "beside", "mean", "remark", "sd", "n", "difference", "command")
STAR = "*"


@dataclass(frozen=True)
class PaperRow:
    """One number of a paper, or of ours, or both side by side.

    Attributes:
        factors: column → what it varies, by our names where it is planned here.
        published: what the paper prints, in the unit of its table; None: nothing.
        beside: the setting of `published` where it is not this row's: it stands there for
            orientation alone, and no difference is formed.
        mean: ours over the seeds, in the same unit; None: it has not run, or cannot.
        sd: over the seeds; None for one, and where there are none.
        n: how many seeds; None where there are none.
        command: what would run what is missing; None: nothing here does.
        remark: a word that marks ours, as that its attack is broken; None: nothing to be said.
    """

    factors: dict[str, str]
    published: float | None = None
    beside: str | None = None
    mean: float | None = None
    sd: float | None = None
    n: int | None = None
    command: str | None = None
    remark: str | None = None

    @property
    def orientation(self) -> bool:
        """Whether the published value is of another setting."""
        return self.beside is not None

    @property
    def difference(self) -> float | None:
        """Ours less the published value, where both are of one setting."""
        if self.orientation or self.mean is None or self.published is None:
            return None
        return self.mean - self.published

    @property
    def missing(self) -> bool:
        """Whether nothing of ours stands here."""
        return self.mean is None


@dataclass(frozen=True)
class PaperTable:
    """A table or a figure of a paper.

    Attributes:
        name: for files and anchors, as rapt-table-2.
        title: what it shows.
        source: which paper, and its own numbering.
        unit: of published values and ours; empty where a row's factors are all there is.
        differs: one sentence on what differs here from the paper.
        columns: the factors, in the order in which they are shown.
        note: what else has to be known, as that there is nothing; None: nothing.
    """

    name: str
    title: str
    source: str
    unit: str
    differs: str
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    note: str | None = None

    @property
    def ran(self) -> int:
        """How many rows have a value of ours, or words where there are no values."""
        return sum(not row.missing if self.unit else row.command is None for row in self.rows)


def to_csv(table: PaperTable) -> str:
    """A table as CSV, in its unit, with the command for what is missing."""
    columns = (*table.columns, *CSV)
    records = [
        {
            **row.factors,
            "unit": table.unit,
            **{name: getattr(row, name) for name in CSV if name not in ("unit", "command")},
            "command": row.command if row.missing else None,
        }
        for row in table.rows
    ]
    return tables.to_csv(records, columns)


def to_tex(table: PaperTable) -> str:
    """A table for LaTeX; a published value of another setting has a star."""
    unit = f"; {table.unit}" if table.unit else ""
    starred = any(row.orientation for row in table.rows)
    above = [
        f"{table.title}. {table.source}{unit}.",
        table.differs,
        *([table.note] if table.note else []),
        *([f"{STAR}: of another setting, for orientation alone."] if starred else []),
    ]
    numbers = ("published", "ours", "seeds", "difference") if table.unit else ()
    return tex.to_tex(
        [*table.columns, *numbers],
        [
            [*(row.factors.get(name, "") for name in table.columns), *as_printed(row, table.unit)]
            for row in table.rows
        ],
        above="\n".join(above),
        left=len(table.columns),
    )


def as_printed(row: PaperRow, unit: str) -> tuple[str, ...]:
    """Published, ours, seeds, difference as they are printed; without a unit there are none.

    Percent have one place, others four digits.
    """
    if not unit:
        return ()
    places = ".1f" if "%" in unit else ".4g"

    def shown(value: float | None, sign: str = "") -> str:
        return "–" if value is None else f"{value:{sign}{places}}".replace("-", MINUS)

    spread = f"{NBSP}{PLUS_MINUS}{NBSP}{shown(row.sd)}" if row.sd is not None else ""
    return (
        shown(row.published) + (STAR if row.orientation else ""),
        shown(row.mean) + spread + (f" ({row.remark})" if row.remark else ""),
        str(row.n or "–"),
        shown(row.difference, "+"),
    )
