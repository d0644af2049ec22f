"""Tables for LaTeX."""

from __future__ import annotations

from pathlib import Path

from rapt.params import Params
from rapt.reporting.tex import KNOWN, OF_A_PAGE
from rapt.reporting.tex import to_tex as tabular


def test_a_tabular_is_escaped_and_ruled() -> None:
    text = tabular(
        ["task", "accuracy, %"],
        [["a_b & {c} #1 $ ~ ^ \\", "71.0 ± 1.4"], ["η · x – y", "−2.0"]],
        above="Two lines,\nboth comments: 100 %.",
        left=1,
    )
    assert text == (
        "% Two lines,\n"
        "% both comments: 100 %.\n"
        "\\begin{tabular}{lr}\n"
        "\\toprule\n"
        "task & accuracy, \\% \\\\\n"
        "\\midrule\n"
        "a\\_b \\& \\{c\\} \\#1 \\$ \\textasciitilde{} \\textasciicircum{} \\textbackslash{}"
        " & 71.0 $\\pm$ 1.4 \\\\\n"
        "$\\eta$ $\\cdot$ x -- y & $-$2.0 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_a_table_that_is_longer_than_a_page_breaks_across_pages() -> None:
    text = tabular(["a"], [["b"]] * (OF_A_PAGE + 1), above="", left=1)
    assert text.startswith(
        "\\begin{longtable}{l}\n\\toprule\na \\\\\n\\midrule\n\\endhead\nb \\\\\n"
    )
    assert text.endswith("b \\\\\n\\bottomrule\n\\end{longtable}\n")


def test_what_a_bare_article_cannot_show_is_named() -> None:
    text = tabular(["released"], [["[CLS] <unk> | café “naïve” 中 α ð ©"]], above="", left=1)
    assert (
        "\n{[}CLS] \\textless{}unk\\textgreater{} \\textbar{} café “naïve” "
        "\\texttt{U+4E2D} \\texttt{U+03B1} \\texttt{U+00F0} \\texttt{U+00A9} \\\\\n"
    ) in text


def test_every_table_has_only_what_a_bare_article_can_show(whole: Params) -> None:
    found = list(Path("reports/tables").glob("*.tex"))
    assert found
    for path in found:
        lines = path.read_text().splitlines()
        shown = set("".join(line for line in lines if not line.startswith("%")))
        assert {c for c in shown if not c.isascii()} <= KNOWN, path
        assert not shown & set("<>|"), path


def test_the_papers_numbers_are_marked(whole: Params) -> None:
    text = Path("reports/tables/published.tex").read_text()
    assert text.startswith("% The papers' numbers beside ours")
    assert " & clean & minilm & inf & 91.4* & inf & 82.6~$\\pm$~0.1 & 2 & -- \\\\\n" in text
    assert " & 88.1$\\dagger$ & inf & -- & -- & -- \\\\\n" in text
