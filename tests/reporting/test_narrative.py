"""The sentences of the page: what counts in them, and which settings they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rapt import paths
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting import narrative, published, tables
from rapt.reporting.figures import figures
from rapt.reporting.page import Overview
from rapt.reporting.summary import print_results
from rapt.results import reader
from rapt.utils import files
from tests.reporting import synthetic
from tests.reporting.conftest import Page, make, planned, rows

# Each test draws a whole page.
pytestmark = pytest.mark.slow


def test_a_sample_and_the_cheap_tuner_are_told(experiment: Params) -> None:
    """As after `rapt init`: 1,400 rows of 5,722, and no tuner but the probe."""
    gate = paths.raw_gate("tweets")
    files.write_json(gate, files.read_json(gate) | {"dropped": {"not drawn": 0}})
    told = dict(narrative.headline(reader.load(experiment)))["What ran"]
    assert told.endswith(" a cell. A sample of the rows: 1,400 of the 5,722 of movies.")
    narrow = {"tuners": [], "tune_at": [], "probes": ["linear-probe"]}
    sweep = experiment.sweep.model_copy(update=narrow)
    results = reader.load(experiment.model_copy(update={"sweep": sweep}))
    told = dict(narrative.headline(results))["What ran"]
    assert told.endswith(" of movies. Only the cheap tuner ran.")


@pytest.mark.parametrize("word", ["broken", "unproven"])
def test_an_attack_that_is_not_known_to_work_never_comforts(
    word: str, experiment: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its figure, 0.2 % recovered here, is bold nowhere, and marked everywhere."""
    clean = planned(experiment, "nearest-movies-clean")
    for eta in experiment.sweep.etas:
        synthetic.recover(planned(experiment, f"nearest-movies-t2t-{eta}"), 0.002)
    if word == "broken":
        synthetic.break_attack(clean)
    else:
        clean.path.unlink()
    results = reader.load(experiment)
    overview = Overview(tables.privacy(results))
    group = next(group for group in overview.groups if group[:2] == ("nearest", "movies"))
    assert not any(overview.strongest(group, "t2t", eta) for eta in overview.etas)
    assert overview.remarks(group) == [word]
    text = make(experiment)
    page = Page(text).text
    assert "<b>0.2" not in text and "<b>22.6" in text and "<td>0.2</td>" in text
    assert f"nearest on movies: protected words {word}" in page  # in the table of all attacks
    drawn = [f for f in figures(results) if re.search("nearest.*movies-prot", f.name)]
    sections = {"trade-off", "privacy"} if word == "unproven" else set()
    assert {figure.section for figure in drawn} == sections
    for figure in drawn:
        said = "Unproven: the attack has no cell on clean text."
        assert said in figure.caption and said in page
        assert "0.2" in figure.description
    beside = published.joined(results).query("task == 'movies' and metric == 'recovered'")
    ours = [published.as_printed(row)[1] for row in beside.itertuples()]
    assert ours == [f"0.2\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.0 ({word})"] * 2
    tex = Path("reports/tables/privacy.tex").read_text()
    assert tex.count(f"99.8~$\\pm$~0.0 ({word}) & 99.8 & 0.2 &") == 2
    assert "99.8~$\\pm$~0.0 &" not in tex
    assert " to " in tex  # the intervals of the others
    series = {row["series"] for row in rows("reports/plots/privacy.csv") if row["mean"] == "0.998"}
    of_plot = {"nearest movies protected words t2t (unproven)"}
    assert series == (of_plot if word == "unproven" else set())
    print_results(experiment)
    terminal = " ".join(capsys.readouterr().out.split())
    found = {"broken": "7.0", "unproven": "–"}[word]
    said = f"words, recovered, % (baseline 4.0 to 6.0, clean text {found}; {word})"
    assert said in terminal


def test_no_figure_shows_an_attack_that_does_not_work(experiment: Params) -> None:
    for cell in plan(experiment):
        if cell.stage == "infer-clean":
            synthetic.break_attack(cell)
    drawn = [figure.name for figure in figures(reader.load(experiment))]
    assert drawn and not [name for name in drawn if "mlp" in name]
