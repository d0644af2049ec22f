"""The summary of a report in the terminal."""

import csv
import json
import re
from pathlib import Path

import pytest
from markupsafe import escape

from rapt import paths
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting.page import render
from rapt.reporting.summary import as_json, print_results
from rapt.reporting.text import eta_text, percent
from rapt.results import reader
from rapt.results.cells import summary
from tests.reporting import synthetic


def test_terminal_shows_the_tables_and_where_the_report_lies(
    whole: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    print_results(whole)
    out = capsys.readouterr().out
    assert "accuracy, % (baseline 51.0; nothing sent 75.2; clean text, unprotected 82." in out
    assert out.rstrip().endswith(str(paths.REPORT.resolve()))


def test_the_advice_is_the_last_line(
    experiment: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write_predictions(experiment, synthetic.ONE_PAYS)
    print_results(experiment)
    assert capsys.readouterr().out.splitlines()[-1].startswith("Advice: A release pays: pct2t")


def test_questions_have_exact_match_and_chance(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    p = synthetic.write(folder)
    for cell in plan(p):
        if cell.kind == "train":
            metrics = {"accuracy": summary([0.3]), "exact_match": summary([0.218])}
            baselines = {"majority": 0.27, "chance": 0.25}
            synthetic.write_cell(cell, metrics=metrics, baselines=baselines)
    print_results(p)
    out = capsys.readouterr().out
    assert "unprotected 30.0, exact match 21.8; chance 25.0)" in out
    assert re.search(r"t2t, exact match +│ +21\.8 │", out)


def test_programs_get_the_rows_of_the_tables(whole: Params) -> None:
    found = json.loads(json.dumps(as_json(whole)))
    for name in ("utility", "privacy", "differences", "claims", "leaderboard"):
        with (paths.TABLES / f"{name}.csv").open(encoding="utf-8") as file:
            assert len(found[name]) == len(list(csv.DictReader(file)))
    assert found["differences"] and found["claims"]


def test_programs_get_the_page_s_first_screen(experiment: Params) -> None:
    synthetic.write_predictions(experiment, synthetic.ONE_PAYS)
    html = render(reader.load(experiment), [])
    found = json.loads(json.dumps(as_json(experiment)))
    assert html.index(f"<dd>{escape(found['advice'])}</dd>") < html.index("<main")
    levels = found["levels"]
    assert found["advice"].startswith("A release pays: pct2t")
    table = html[html.index('id="worth"') : html.index("Every release against")]
    shown = re.findall(r'<tr><th scope="row">(.*?)</th><td class="left">(.*?)</td><td><b>', table)
    assert shown == [(eta_text(each["eta"]), each["best"]) for each in levels]
    for each in levels:
        cells = [f"<b>{percent(each[name])}" for name in ("accuracy", "local", "clean")]
        read = f"<td>{percent(each['recovered'])}<small>{each['attack']}</small>"
        assert all(cell in table for cell in [*cells, read])
