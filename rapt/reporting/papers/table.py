"""Data of the papers' tables and figures: rows of factors with published values and ours."""

from __future__ import annotations

from dataclasses import dataclass

from rapt.reporting import tables, tex
from rapt.reporting.text import MINUS, NBSP, PLUS_MINUS

# The columns of a CSV file after the factors.
CSV = (
    *("unit", "published", "beyond", "beside", "mean", "remark", "sd", "n", "difference"),
    "command",
)
STAR = "*"
BLEU = ", BLEU"  # after the task, whose other numbers are accuracies
# What the best published systems reach on WebNLG, about.
BEST_BLEU = 62
DAGGER = "†"


@dataclass(frozen=True)
class PaperRow:
    """One number of a paper, one of ours, or both side by side.

    Attributes:
        factors: factor of each column, by our names if it is planned here.
        published: the paper's number, in the unit of its table; None: it has none.
        beside: the setting of `published` if it is not this row's; `published` is then only for
            orientation, without a difference.
        mean: our mean over the seeds, in the same unit; None: it has not run, or cannot.
        sd: standard deviation over the seeds; None for fewer than two.
        n: number of seeds; None: there are none.
        command: the command for a missing value; None: there is none.
        remark: a word that marks our value, such as `broken` for its attack; None: no remark.
    """

    factors: dict[str, str]
    published: float | None = None
    beside: str | None = None
    mean: float | None = None
    sd: float | None = None
    n: int | None = None
    command: str | None = None
    remark: str | None = None

    @classmethod
    def of_shares(
        cls,
        factors: dict[str, str],
        command: str | None,
        mean: float | None = None,
        sd: float | None = None,
        n: int | None = None,
        *,
        remark: str | None = None,
    ) -> PaperRow:
        """Make a row of ours, in percent."""
        mean, sd = (None if share is None else 100 * share for share in (mean, sd))
        return cls(factors, mean=mean, sd=sd, n=n, command=command, remark=remark)

    @property
    def orientation(self) -> bool:
        """Whether the published value is for another setting."""
        return self.beside is not None

    @property
    def beyond(self) -> bool:
        """Whether the published value is a BLEU beyond every known system."""
        is_bleu = self.factors.get("task", "").endswith(BLEU)
        return is_bleu and self.published is not None and self.published > BEST_BLEU

    @property
    def difference(self) -> float | None:
        """Our value minus the published one, if both are for the same setting."""
        if self.orientation or self.mean is None or self.published is None:
            return None
        return self.mean - self.published

    @property
    def missing(self) -> bool:
        """Whether there is no value of ours."""
        return self.mean is None


@dataclass(frozen=True)
class PaperTable:
    """A table or a figure of a paper; further attributes as of its `Layout`.

    Attributes:
        source: the paper, and its own numbering.
        differs: one sentence on the differences from the paper.
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
        """The number of rows that have run: with our value or, without a unit, without command."""
        return sum(not row.missing if self.unit else row.command is None for row in self.rows)


def to_csv(table: PaperTable) -> str:
    """Format a table as CSV, in its unit, with the commands for missing values."""
    records = [
        vars(row)
        | row.factors
        | {"unit": table.unit, "difference": row.difference, "beyond": row.beyond or None}
        | ({} if row.missing else {"command": None})
        for row in table.rows
    ]
    return tables.to_csv(records, (*table.columns, *CSV))


def to_tex(table: PaperTable) -> str:
    """Format a table for LaTeX; a published value for another setting has a star."""
    unit = f"; {table.unit}" if table.unit else ""
    starred = any(row.orientation for row in table.rows)
    above = [
        f"{table.title}. {table.source}{unit}.",
        table.differs,
        *([table.note] if table.note else []),
        *([f"{STAR}: of another setting, for orientation alone."] if starred else []),
    ]
    numbers = ("published", "ours", "seeds", "difference") if table.unit else ()
    rows = [
        [*(row.factors.get(name, "") for name in table.columns), *as_printed(row, table.unit)]
        for row in table.rows
    ]
    header, left = [*table.columns, *numbers], len(table.columns)
    return tex.to_tex(header, rows, above="\n".join(above), left=left)


def as_printed(row: PaperRow, unit: str) -> tuple[str, ...]:
    """Format published value, ours, seeds and difference; without a unit there are none.

    Percentages have one decimal place, other values four digits.
    """
    if not unit:
        return ()
    places = ".1f" if "%" in unit else ".4g"

    def shown(value: float | None, sign: str = "") -> str:
        return "–" if value is None else f"{value:{sign}{places}}".replace("-", MINUS)

    spread = f"{NBSP}{PLUS_MINUS}{NBSP}{shown(row.sd)}" if row.sd is not None else ""
    return (
        shown(row.published) + STAR * row.orientation + DAGGER * row.beyond,
        shown(row.mean) + spread + (f" ({row.remark})" if row.remark else ""),
        str(row.n or "–"),
        shown(row.difference, "+"),
    )
