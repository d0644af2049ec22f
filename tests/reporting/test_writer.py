"""The files of a report: equal bytes of equal cells, plots, numbers, and a report of nothing."""

import re
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from rapt import paths
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting.summary import print_results
from rapt.reporting.writer import KNOWN, OF_A_PAGE, report, to_tex
from rapt.results import reader
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import Rapt
from tests.reporting.conftest import Page, make, rows


@pytest.mark.slow
def test_nothing_but_params_makes_a_report(experiment: Params) -> None:
    for cell in plan(experiment):
        cell.path.unlink()
    for folder in ("gates", "calibration", "statistics"):
        for path in Path("reports", folder).rglob("*.json"):
            path.unlink()
    Path("reports/examples.json").unlink()
    text = Page(make(experiment)).text
    assert "No cell and attack with the same method and η have run yet" in text
    for stage in ("calibrate", "channel"):
        assert f"Missing: dvc repro {stage}" in text
    assert "dvc repro examples" in text
    assert f"0 of {len(plan(experiment))} planned cells have run" in text
    assert files.read_json("reports/metrics.json") == {}
    print_results(experiment)


@pytest.mark.slow
def test_equal_cells_give_equal_bytes(experiment: Params) -> None:
    make(experiment)
    first = {path: files.sha256(path) for path in _outs()}
    files.write_json("reports/cells/train/x.json", {})
    reader.prune(experiment)
    make(experiment)
    assert {path: files.sha256(path) for path in _outs()} == first
    for path in _outs():
        content = path.read_bytes()
        assert str(Path.cwd()).encode() not in content
        assert f"{date.today():%Y-%m-%d}".encode() not in content
        assert not re.search(rb"dc:date|tEXtSoftware", content), path


def _outs() -> list[Path]:
    folders = [p for n in ("tables", "figures", "plots") for p in Path("reports", n).iterdir()]
    return sorted([paths.REPORT, Path("reports/metrics.json"), *folders])


def test_metrics_are_plain_numbers_by_kind_and_cell(whole: Params) -> None:
    metrics = files.read_json("reports/metrics.json")
    assert set(metrics) == {"train", "study", "local", "invert", "infer", "recognize"}
    cell = files.read_json("reports/cells/train/movies-minilm-lora-rapt-75.json")
    assert metrics["train"][cell["cell"]] == {
        "accuracy": round(cell["metrics"]["accuracy"]["mean"], 4)
    }
    assert set(metrics["infer"]["mlp-tweets-t2t-50"]) == {
        "accuracy_author",
        "empirical_privacy_author",
    }


def test_plots_are_tidy(whole: Params) -> None:
    plot = rows("reports/plots/utility.csv")
    assert list(plot[0]) == ["eta", "method", "mean", "series"]
    assert [row["eta"] for row in plot] == sorted((r["eta"] for r in plot), key=float)
    assert rows("reports/plots/privacy.csv")


def test_a_tabular_is_escaped_and_ruled() -> None:
    words = ["a_b & {c} #1 $ ~ ^ \\", "η · x – y"]
    text = to_tex(
        pd.DataFrame({"task": words, "accuracy, %": ["71.0 ± 1.4", "−2.0"]}),
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
    text = to_tex(pd.DataFrame({"a": ["b"] * (OF_A_PAGE + 1)}), above="", left=1)
    assert text.startswith("\\begin{longtable}{l}\n\\toprule\na \\\\\n\\midrule\n")
    assert "\\endhead" in text and text.count("\nb \\\\") == OF_A_PAGE + 1
    assert text.endswith("b \\\\\n\\end{longtable}\n")


def test_what_a_bare_article_cannot_show_is_named() -> None:
    released = {"released": ["[CLS] <unk> | café “naïve” 中 α ð ©"]}
    text = to_tex(pd.DataFrame(released), above="", left=1)
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
    text = Path("reports/tables/rapt-v3-table-II.tex").read_text()
    assert text.startswith("% RAPT (arXiv 2305.06212v3), Table II, beside ours")
    assert " & clean & minilm & inf & 91.4* & inf & 82.6~$\\pm$~0.1 & 2 & -- \\\\\n" in text
    text = Path("reports/tables/rapt-v3-table-IV.tex").read_text()
    assert " & 88.1$\\dagger$ & inf & -- & -- & -- \\\\\n" in text


def test_a_copy_is_refused_where_it_is_dvcs(whole: Params) -> None:
    line = r"copy.html: got a path in reports, expected one outside it"
    with pytest.raises(RaptError, match=line):
        report(Path("reports/copy.html"))
    with pytest.raises(RaptError, match=r"^OUT: got 'tpyo/copy.html', expected a path in a folder"):
        report(Path("tpyo/copy.html"))
    assert not Path("tpyo").exists()


def test_the_command_says_where_the_copy_lies(whole: Params, tmp_path: Path, rapt: Rapt) -> None:
    copy = tmp_path / "copy.html"
    assert rapt("report", copy) == (0, f"{copy}\n", "")
    assert 'id="stamp"' in copy.read_text()
