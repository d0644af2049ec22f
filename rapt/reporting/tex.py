"""Tables for LaTeX: booktabs, and what pdflatex cannot read replaced."""

from __future__ import annotations

from collections.abc import Sequence

from rapt.reporting.text import MINUS, NBSP, PLUS_MINUS

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


def to_tex(header: Sequence[str], rows: Sequence[Sequence[str]], *, above: str, left: int) -> str:
    r"""A tabular with booktabs' rules, to be read by `\input`; a longtable where it is long.

    Args:
        header: a name for each column.
        rows: of as many cells.
        above: what the table is, as a comment over it, line by line.
        left: how many columns are words, before those that are numbers.
    """
    columns = "l" * left + "r" * (len(header) - left)
    name, head = "tabular", ""
    if len(rows) > OF_A_PAGE:
        name, head = "longtable", "\\endhead\n"
    comments = "".join(f"% {line}\n" for line in above.splitlines())
    top, *body = (
        " & ".join("".join(map(_shown, cell)) for cell in row) + " \\\\\n"
        for row in (header, *rows)
    )
    return (
        f"{comments}\\begin{{{name}}}{{{columns}}}\n\\toprule\n{top}\\midrule\n{head}"
        f"{''.join(body)}\\bottomrule\n\\end{{{name}}}\n"
    )


def _shown(character: str) -> str:
    """Return a character as LaTeX writes it, or its code (U+4E2D) if LaTeX cannot."""
    written = character.translate(SPECIAL)
    if character.isascii() or written != character or character in KNOWN:
        return written
    return rf"\texttt{{U+{ord(character):04X}}}"
