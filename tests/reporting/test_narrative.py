"""The sentences of the page: what counts in them, and which settings they name."""

import re
from pathlib import Path
from typing import Any

import pytest

from rapt import paths
from rapt.grid import CLEAN, plan
from rapt.params import Params
from rapt.reporting import published, tables, utility_table
from rapt.reporting.figures import figures
from rapt.reporting.narrative import advice, headline
from rapt.reporting.page import Overview
from rapt.reporting.rows import Row
from rapt.reporting.summary import print_results
from rapt.results import reader
from rapt.utils import files
from tests.reporting import synthetic
from tests.reporting.conftest import Page, make, planned, rows, swept


@pytest.mark.slow
def test_a_sample_and_the_cheap_tuner_are_told(experiment: Params) -> None:
    """As after `rapt init`: 1,400 rows of 5,722, and no tuner but the probe."""
    gate = paths.raw_gate("tweets")
    files.write_json(gate, files.read_json(gate) | {"dropped": {"not drawn": 0}})
    told = dict(headline(reader.load(experiment)))["What ran"]
    assert told.endswith(" a cell. A sample of the rows: 1,400 of the 5,722 of movies.")
    narrow = swept(experiment, tuners=[], tune_at=[], probes=["linear-probe"])
    told = dict(headline(reader.load(narrow)))["What ran"]
    assert told.endswith(" of movies. Only the cheap tuner ran.")


@pytest.mark.slow
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


@pytest.mark.slow
def test_no_figure_shows_an_attack_that_does_not_work(experiment: Params) -> None:
    for cell in plan(experiment):
        if cell.stage == "infer-clean":
            synthetic.break_attack(cell)
    drawn = [figure.name for figure in figures(reader.load(experiment))]
    assert drawn and not [name for name in drawn if "mlp" in name]


@pytest.mark.parametrize(
    ("clean", "expected"),
    [(0.71, "Send nothing. A local model reaches"), (0.9, "Send none of these releases.")],
)
def test_the_advice_says_which_world_it_is(experiment: Params, clean: float, expected: str) -> None:
    synthetic.write_predictions(experiment, synthetic.NONE_PAYS | {CLEAN: clean})
    said = dict(headline(reader.load(experiment)))["Advice"]
    assert said.startswith(expected)
    worth = re.search(
        r"lora, is as good as a local model with about ([\d,]+) labels \(.* to .*\): with fewer",
        said,
    )
    assert worth


@pytest.mark.parametrize(
    ("clean", "pct2t", "expected"),
    [
        (0.5, 0.45, "Too few rows to tell: neither a local model (45.0) nor the provider on "),
        (0.9, 0.52, "Send none of these releases. The most frequent class is right in 51.0"),
        (0.9, 0.75, "A release pays: pct2t"),
    ],
)
def test_no_advice_is_below_guessing(
    experiment: Params, clean: float, pct2t: float, expected: str
) -> None:
    """The local model is right less often than the most frequent class, which is to be beaten."""
    shares = {"local": 0.45, "t2t": 0.45, "pct2t": pct2t, "rapt": 0.45, CLEAN: clean}
    synthetic.write_predictions(experiment, shares)
    for cell in plan(experiment):
        if cell.kind in ("local", "train"):
            accuracy = synthetic.metric(shares[cell.factors["method"]], 0.05)
            synthetic.write_cell(cell, metrics={"accuracy": accuracy})
    results = reader.load(experiment)
    said = dict(headline(results))["Advice"]
    assert said.startswith(expected), said
    if said.startswith("Too few"):
        assert "1,400 of 5,722 rows ran: `rapt init … --full` takes all" in said
    row = next(r for r in utility_table.utility(results) if r.unprotected)
    assert row.to_beat == 0.51 and row.over_local == pytest.approx(clean - 0.5)


def test_the_advice_reads_clean_text_by_every_tuner() -> None:
    """The first one is no better than sending nothing, and the second one is."""
    of_all = {"task": "movies", "local": 0.75, "majority": 0.5, "local_low": 0.7, "to_beat": 0.75}
    of_all |= {"kind": "train"}
    of_all |= {"training_epsilon": None, "with_local": False, "labels_from": None, "eta": "inf"}

    def row(tuner: str, accuracy: float, low: float, against: str, **of: Any) -> Row:
        of = {"label": "clean", "unprotected": True, "over_local": accuracy - 0.75} | of
        of |= {"tuner": tuner, "accuracy": accuracy, "accuracy_low": low, "against_local": against}
        return Row(**of_all | of)

    rows = [
        row("linear-probe", 0.73, 0.45, "undecided"),
        row("lora", 0.95, 0.93, "better"),
        row("lora", 0.76, 0.7, "undecided", label="t2t", eta="75", unprotected=False),
    ]
    assert advice(rows, []).startswith("Send none of these releases.")
    for each in rows:
        each.local_low = 0.45
    assert advice(rows, []).startswith("Send none of these releases.")


@pytest.mark.parametrize("attack", ["bayes", "nearest"])
@pytest.mark.parametrize(("read", "leaks"), [(0.9, False), (0.98, True)])
def test_the_advice_tells_a_leak(experiment: Params, read: float, leaks: bool, attack: str) -> None:
    """More is read than the channel of single words tells: 95 % in these cells."""
    synthetic.write_predictions(experiment, synthetic.ONE_PAYS)
    for eta in experiment.sweep.etas:
        synthetic.recover(planned(experiment, f"{attack}-movies-pct2t-{eta}"), read)
    said = dict(headline(reader.load(experiment)))["Advice"].replace("\xa0", " ")
    assert f"{attack} reads {100 * read:.1f} % of its protected words" in said
    assert ("Do not send it before you know why" in said) == leaks


def test_the_strongest_attack_reads_words_or_links_texts(experiment: Params) -> None:
    """In the advice and beside each release; the words that are sent as they are stay beside it."""
    synthetic.write_predictions(experiment, synthetic.ONE_PAYS)
    results = reader.load(experiment)
    rows = [row for row in utility_table.utility(results) if row.on_grid]
    words = [row for row in tables.privacy(results) if row.kind == "invert" and row.counts]
    most = max(row.attack_accuracy for row in words)
    none = {"unprotected_share": None, "accuracy_ceiling": None}
    links, weak = (
        [row.but(kind="link", attack="linkage", attack_accuracy=at, **none) for row in words]
        for at in (most + 0.1, 0.001)
    )
    for attacks, kind in ((links, "link"), ([*links, *words], "link"), ([*weak, *words], "invert")):
        pairs = tables.worth(rows, attacks)["movies", "minilm", "lora"]["75"]
        own = [of for row, of in pairs if of and row.method == "pct2t"]
        assert {of.kind for of in own} == {kind}
        assert (own[0].unprotected_share is None) == (attacks is links)
    said = advice(rows, [*links, *words]).replace("\xa0", " ")
    assert said.endswith(f" linkage finds the original of {100 * (most + 0.1):.1f} % of its texts.")
    above = [row.but(accuracy_ceiling=most / 2, attack_accuracy_low=most - 0.01) for row in words]
    said = advice(rows, [*links, *above])
    assert "linkage finds" in said and "Do not send it before you know why" in said
