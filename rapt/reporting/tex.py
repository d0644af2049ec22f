"""Tables for LaTeX: booktabs, and what pdflatex cannot read replaced."""

from __future__ import annotations

from collections.abc import Sequence

from rapt.reporting.text import MINUS, NBSP, PLUS_MINUS

SPECIAL = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "η": r"$\eta$",
        "·": r"$\cdot$",
        "–": "--",
        NBSP: "~",
        MINUS: "$-$",
        PLUS_MINUS: r"$\pm$",
    }
)


def to_tex(header: Sequence[str], rows: Sequence[Sequence[str]], *, above: str, left: int) -> str:
    r"""A tabular with booktabs' rules, to be read by `\input`.

    Args:
        header: a name for each column.
        rows: of as many cells.
        above: what the table is, as a comment over it, line by line.
        left: how many columns are words, before those that are numbers.
    """
    columns = "l" * left + "r" * (len(header) - left)
    lines = [
        *(f"% {line}" for line in above.splitlines()),
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _line(header),
        r"\midrule",
        *map(_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cell.translate(SPECIAL) for cell in cells) + r" \\"
