"""The page, the tables and the figures, from synthetic cells."""

from __future__ import annotations

import csv
import html
import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rapt import paths, presets
from rapt.grid import CLEAN, PlannedCell, plan, released
from rapt.params import Params, load
from rapt.reporting import mlflow_mirror, narrative, tables, writer
from rapt.reporting.charts import Figure
from rapt.reporting.claims import claims
from rapt.reporting.figures import accuracies, figures, settings
from rapt.reporting.page import Overview, render
from rapt.reporting.papers import PaperRow, paper_table, papers
from rapt.reporting.papers.table import as_printed
from rapt.reporting.published import beside
from rapt.reporting.sentences import sentences
from rapt.reporting.summary import print_results
from rapt.results import reader
from rapt.utils import files
from stages import report
from tests.conftest import ROOT
from tests.reporting import synthetic

# Each test draws a whole page.
pytestmark = pytest.mark.slow


def make(params: Params) -> str:
    writer.write(reader.load(params))
    return paths.REPORT.read_text()


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


class Page(HTMLParser):
    """The page as a reader meets it: its words, what it would load, its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.loads += [
            value or ""
            for name, value in attrs
            if name in ("src", "srcset", "href", "xlink:href", "data", "action")
        ]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """The words, with every kind of space as one space."""
        return " ".join(" ".join(self.words).split())


def planned(params: Params, cell: str) -> PlannedCell:
    return next(c for c in plan(params) if c.cell == cell)


def test_plan_names_every_cell_once(whole: Params) -> None:
    names = [(cell.kind, cell.cell) for cell in plan(whole)]
    sweep = whole.sweep
    assert len(names) == len(set(names))
    # With clean text: three methods tuned, two attacked. Whoever knows the channel needs no clean.
    tuned, attacked, by_channel = (
        len(methods) * len(sweep.etas)
        for methods in (sweep.methods, sweep.attacked, sweep.channels)
    )
    attacks = [(sweep.inversions, sweep.invert), (sweep.inferences, sweep.infer)]
    attacks += [(sweep.recognitions, sweep.recognize)]
    assert len(names) == (
        (tuned + 1) * len(sweep.train) * len(sweep.backbones) * len(sweep.tuners)
        + (attacked + 1) * sum(len(attack) * len(tasks) for attack, tasks in attacks)
        + by_channel * len(sweep.channel_inversions) * len(sweep.invert)
        + len(whole.studies)
    )
    assert ("train", "movies-minilm-lora-rapt-75") in names
    assert ("infer", "mlp-tweets-clean") in names


def test_utility_table_shows_mean_sd_and_replaced_share(experiment: Params) -> None:
    cell = planned(experiment, "movies-minilm-lora-pct2t-75")
    seeds = [{"seed": k, "metrics": {"accuracy": 0.7 + k / 50}, "curves": {}} for k in (0, 1)]
    synthetic.write_cell(
        cell, metrics={"accuracy": {"mean": 0.71, "sd": 0.0141421356, "n": 2}}, seeds=seeds
    )
    text = Page(make(experiment)).text
    assert "71.0 ± 1.4 45.0 % replaced" in text
    row = next(r for r in rows("reports/tables/utility.csv") if r["cell"] == cell.cell)
    assert (row["accuracy"], row["accuracy_sd"], row["seeds"]) == ("0.71", "0.014142", "2")
    assert (row["majority"], row["replaced_share"]) == ("0.51", "0.45")


def test_unprotected_cells_are_marked_everywhere(whole: Params) -> None:
    text = paths.REPORT.read_text()
    marked = re.findall(r"clean text(?:<br>| )<span class=\"badge\">unprotected</span>", text)
    whole_attacks = {(r["attack"], r["task"]) for r in rows("reports/tables/privacy.csv")}
    assert len(marked) == 1 + 1 + len(whole_attacks)  # utility, all attacks, each attack
    for table in ("utility", "privacy"):
        for row in rows(f"reports/tables/{table}.csv"):
            assert (row["protection"] == "unprotected") == (row["eta"] == "inf")


def test_a_tuner_at_one_eta_has_one_column_and_clean_text_stands_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = reader.load(synthetic.write(tmp_path, synthetic.tune_at_one))
    text = Page(render(results, [])).text
    assert "minilm tuned with lora (at η = 75) and prompt on movies;" in text
    assert re.search(r"Method η = 75 t2t [\d.]+ ± [\d.]+ 50.0 % replaced pct2t", text)
    assert re.search(r"Method η = 50 η = 75 t2t .*? clean text unprotected 8\d\.\d ± ", text)
    lora, prompt = (f for f in accuracies(tables.utility(results)))
    assert "η 50" not in lora.description and "t2t, η 50" in prompt.description
    assert "clean text (unprotected)" in lora.description and "η inf" not in lora.description


def test_privacy_table_shows_attack_floor_and_clean_baseline(whole: Params) -> None:
    row = next(r for r in rows("reports/tables/privacy.csv") if r["cell"] == "mlp-tweets-t2t-50")
    privacy, attack = float(row["empirical_privacy"]), float(row["attack_accuracy"])
    assert privacy == pytest.approx(1 - attack, abs=1e-5)
    assert (row["target"], row["majority"], row["broken"]) == ("author", "0.55", "False")
    page = Page(paths.REPORT.read_text()).text
    assert "nearest recovers the protected words of movies" in page
    assert "100.0 % on clean text (floor 4.0 to 6.0 %)" in page
    clean = files.read_json("reports/cells/infer/mlp-tweets-clean.json")
    assert float(row["clean_accuracy"]) == pytest.approx(
        clean["metrics"]["accuracy_author"]["mean"], abs=1e-6
    )


def test_entities_are_a_target_with_f1_for_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAPT_HOME", raising=False)
    text = Page(make(synthetic.write(tmp_path, synthetic.recognize_entities))).text
    assert "ner recognizes, in F1, the entities of " in text
    own = [row for row in rows("reports/tables/privacy.csv") if row["kind"] == "recognize"]
    assert len(own) == 2 * (3 * 2 + 1)
    row = next(row for row in own if row["cell"] == "ner-movies-t2t-50")
    cell = files.read_json("reports/cells/recognize/ner-movies-t2t-50.json")
    assert float(row["attack_accuracy"]) == pytest.approx(cell["metrics"]["f1"]["mean"], abs=1e-6)
    assert (row["target"], row["attack_accuracy_all_words"]) == ("entities", "")
    names = {path.name for path in Path("reports/figures").iterdir()}
    assert "pareto-movies-minilm-lora-ner-movies-entities.svg" in names
    assert not [name for name in names if name.startswith("pareto") and "ner-tweets" in name]


def test_attack_that_clean_text_does_not_lift_over_its_floor_is_called_broken(
    experiment: Params,
) -> None:
    synthetic.break_attack(planned(experiment, "mlp-tweets-clean"))
    text = Page(make(experiment)).text
    assert "mlp on tweets: author : empirical privacy, %. broken : on clean text" in text
    broken = {r["attack"] for r in rows("reports/tables/privacy.csv") if r["broken"] == "True"}
    assert broken == {"mlp"}


def test_who_knows_the_channel_of_clean_text_reads_it_all(whole: Params) -> None:
    own = [row for row in tables.privacy(reader.load(whole)) if row.attack == "bayes"]
    assert own and not any(row.unprotected for row in own)
    assert all(row.sound and row.clean_accuracy == 1 for row in own)


@pytest.mark.parametrize("word", ["broken", "unproven"])
def test_an_attack_that_is_not_known_to_work_never_comforts(
    word: str, experiment: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its figure, 99.8 % privacy here, is in no headline, bold nowhere, and marked elsewhere."""
    clean = planned(experiment, "nearest-movies-clean")
    for eta in experiment.sweep.etas:
        _reaches(planned(experiment, f"nearest-movies-t2t-{eta}"), 0.002)
    if word == "broken":
        synthetic.break_attack(clean)
    else:
        clean.path.unlink()
    results = reader.load(experiment)
    headline = dict(narrative.headline(results))["Attacked"]
    assert "the protected words of tweets" in headline and "0.2" not in headline
    overview = Overview(tables.privacy(results))
    group = next(group for group in overview.groups if group[:2] == ("nearest", "movies"))
    assert not any(overview.strongest(group, "t2t", eta) for eta in overview.etas)
    assert overview.remarks(group) == [word]
    text = make(experiment)
    page = Page(text).text
    assert "<b>99.8" not in text and "<b>77.4" in text and "<td>99.8</td>" in text
    assert f"nearest on movies: protected words {word}" in page  # in the table of all attacks
    drawn = [f for f in figures(results) if re.search("nearest.*movies-prot", f.name)]
    sections = {"trade-off", "privacy"} if word == "unproven" else set()
    assert {figure.section for figure in drawn} == sections
    for figure in drawn:
        said = "Unproven: the attack has no cell on clean text."
        assert said in figure.caption and said in page
        assert "99.8" in figure.description
    ours = [shown for _, shown, *_ in _paper_rows(results, "rapt-figure-4")]
    assert ours.count(f"99.8\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.0 ({word})") == 2
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
    said = f"empirical privacy, % (attack's floor 4.0 to 6.0, on clean text {found}; {word})"
    assert said in terminal


def _reaches(cell: PlannedCell, accuracy: float) -> None:
    found = {"mean": accuracy, "sd": 0.0, "n": 2, "low": accuracy, "high": accuracy}
    left = found | dict.fromkeys(("mean", "low", "high"), 1 - accuracy)
    metrics = {"accuracy": found, "accuracy_protected": found, "empirical_privacy": left}
    synthetic.write_cell(cell, metrics=metrics)


def _paper_rows(results: reader.Results, name: str) -> list[tuple[str, ...]]:
    (table,) = (table for table in papers(results) if table.name == name)
    return [as_printed(row, table.unit) for row in table.rows if row.factors["method"] == "t2t"]


def test_where_no_attack_of_a_kind_works_the_headline_says_so(experiment: Params) -> None:
    for cell in plan(experiment):
        if cell.stage == "infer-clean":
            synthetic.break_attack(cell)
    headline = dict(narrative.headline(reader.load(experiment)))["Attacked"]
    assert "nothing counts of mlp." in headline and "infers" not in headline
    drawn = [figure.name for figure in figures(reader.load(experiment))]
    assert not [name for name in drawn if "mlp" in name]


def test_the_trade_off_of_the_papers_has_attacks_that_work_alone(experiment: Params) -> None:
    def row(p: Params = experiment) -> PaperRow:
        (table,) = (t for t in papers(reader.load(p)) if t.name == "rapt-figure-7")
        wanted = {"method": "t2t", "eta": "75", "measure": "empirical privacy"}
        return next(r for r in table.rows if wanted.items() <= r.factors.items())

    clean = planned(experiment, "nearest-movies-clean")
    synthetic.break_attack(clean)
    assert row().mean is not None  # bayes, which needs no clean text to be shown to work
    none = experiment.sweep.model_copy(update={"channel_inversions": []})
    alone = experiment.model_copy(update={"sweep": none})
    assert (row(alone).mean, row(alone).remark, row(alone).command) == (None, "broken", None)
    clean.path.unlink()
    assert (row(alone).mean, row(alone).remark) == (None, None)
    assert row(alone).command == clean.command


def test_what_the_attacker_knows_stands_beside_every_result(experiment: Params) -> None:
    for cell in plan(experiment):
        if cell.factors.get("attack") == "bayes":
            cell.path.unlink()
    text = Page(make(experiment)).text
    known = {
        name: experiment.attacks[name].attacker_knowledge
        for name in ("nearest", "bayes-twice", "mlp")
    }
    assert f"What each attacker knows beside the release: nearest: {known['nearest']} " in text
    assert f"bayes-twice: {known['bayes-twice']}; 2 releases" in text
    assert f"mlp: {known['mlp']}" in text
    assert (
        f"bayes: {experiment.attacks['bayes'].attacker_knowledge}" not in text
    )  # it has no results
    for row in rows("reports/tables/privacy.csv"):
        assert row["knows"] == experiment.attacks[row["attack"]].attacker_knowledge


def test_the_error_of_guessed_vectors_stands_beside_clean_text_and_its_floor(
    experiment: Params,
) -> None:
    for eta, error in {"50": 0.0123, "75": 0.0087, "inf": 0.0009}.items():
        release = CLEAN if eta == "inf" else f"t2t-{eta}"
        cell = planned(experiment, f"nearest-movies-{release}")
        content = synthetic.write_cell(cell)
        interval = {} if eta == "50" else {"low": error / 2, "high": 2 * error}
        found = {"squared_error": {"mean": error, "sd": 0.0, "n": 2} | interval}
        floors = content["floors"] | {"squared_error": 0.0234}
        synthetic.write_cell(cell, metrics=content["metrics"] | found, floors=floors)
    text = Page(make(experiment)).text
    own = [r for r in rows("reports/tables/privacy.csv") if r["squared_error"]]
    names = ("eta", "squared_error", "squared_error_low", "squared_error_high")
    assert [tuple(row[name] for name in names) for row in own] == [
        ("inf", "0.0009", "0.00045", "0.0018"),
        ("50", "0.0123", "", ""),
        ("75", "0.0087", "0.00435", "0.0174"),
    ]
    beside = {(row["clean_squared_error"], row["squared_error_floor"]) for row in own}
    assert beside == {("0.0009", "0.0234")}
    assert "squared error 0.0087 (0.00435 to 0.0174)" in text
    for value, times in {"0.0123": 1, "0.0087": 1, "0.0009": 1, "0.0234": 1}.items():
        assert text.count(f"squared error {value}") == times


def test_missing_cells_show_the_command_that_runs_them(experiment: Params) -> None:
    missing = ("train/movies-minilm-lora-rapt-75", "train/movies-minilm-lora-clean")
    for cell in (*missing, "invert/nearest-movies-clean"):
        Path(f"reports/cells/{cell}.json").unlink()
    text = Page(make(experiment)).text
    assert "missing dvc repro train@movies-minilm-lora-rapt-75" in text
    assert "clean text unprotected missing dvc repro train-clean@movies-minilm-lora" in text
    assert "dvc repro invert-clean@nearest-movies" in text
    assert f"3 of {len(plan(experiment))} cells are missing" in text
    assert "no cell on clean text shows yet whether the attack works" in text


def test_failed_gate_is_shown(experiment: Params) -> None:
    path = "reports/gates/private/movies/rapt-75.json"
    gate = files.read_json(path)
    gate |= {"passed": False, "replaced": []}
    gate["expectations"][0] |= {"passed": False, "failed": 3, "split": "seed-0/test"}
    files.write_json(path, gate)
    text = Page(make(experiment)).text
    assert "movies/rapt-75 FAILED: as many words as before, seed-0/test" in text
    assert "16 of 17 gates passed" in text  # of 2 tasks raw, clean and 6 releases each; of a study


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
    assert text.count("dvc repro examples") == 2  # the sentences, and Qu's Tables 1 and 2
    assert f"0 of {len(plan(experiment))} planned cells have run" in text
    assert files.read_json("reports/metrics.json") == {}
    print_results(experiment)


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


def test_page_loads_nothing_and_can_be_read_aloud(whole: Params) -> None:
    text = paths.REPORT.read_text()
    page = Page(text)
    assert [load for load in page.loads if not load.startswith("#")] == []
    still = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert all(u.startswith(("#", "'#", '"#')) for u in re.findall(r"url\(([^)]*)\)", still))
    assert "@import" not in still
    assert not {"link", "iframe", "img"} & {tag for tag, _ in page.tags}
    ids = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(ids) == len(set(ids))
    anchors = {load[1:] for load in page.loads if load.startswith("#")}
    assert anchors <= set(ids)
    figures = [a for tag, a in page.tags if tag == "svg"]
    assert figures
    assert all(a["role"] == "img" and a["aria-labelledby"] in ids for a in figures)
    assert all(a.get("scope") for tag, a in page.tags if tag == "th")


def test_every_attack_stands_in_one_table_the_strongest_in_bold(experiment: Params) -> None:
    planned(experiment, "nearest-movies-pct2t-50").path.unlink()
    for attack, private in (("nearest", 0.81), ("bayes", 0.789), ("bayes-twice", 0.6)):
        cell = planned(experiment, f"{attack}-movies-t2t-50")
        metric = {"mean": private, "sd": 0.0, "n": 3, "low": private, "high": private}
        content = synthetic.write_cell(cell)
        synthetic.write_cell(cell, metrics=content["metrics"] | {"empirical_privacy": metric})
    overview = Overview(tables.privacy(reader.load(experiment)))
    inversions, key = overview.groups[:3], ("t2t", "50")
    assert [group[0] for group in inversions] == ["nearest", "bayes", "bayes-twice"]
    assert [overview.privacy(group, *key) for group in inversions] == [0.81, 0.789, 0.6]
    assert [overview.strongest(group, *key) for group in inversions] == [False, True, False]
    assert [overview.remarks(group) for group in inversions] == [[], [], ["with 2 releases"]]
    assert overview.privacy(inversions[0], "pct2t", "50") is None
    text = make(experiment)
    assert "<td>81.0</td>" in text
    assert "<td><b>78.9</b></td>" in text


def test_what_privatizes_alike_shares_the_attacks_on_its_releases(whole: Params) -> None:
    rows = tables.privacy(reader.load(whole))
    found = {(row.attack, row.task, row.method, row.eta): row for row in rows}
    own = found["bayes", "movies", "pct2t", "75"]
    assert found["bayes", "movies", "rapt", "75"] == replace(own, method="rapt")
    assert {row.method for row in rows} == {*whole.sweep.methods, CLEAN}


def test_an_attack_that_has_not_run_leaves_the_one_on_what_privatizes_alike(
    experiment: Params,
) -> None:
    every = experiment.sweep.model_copy(update={"attacked": ["t2t", "pct2t", "rapt"]})
    p = experiment.model_copy(update={"sweep": every})

    def row() -> tables.Privacy:
        (found,) = (
            row
            for row in tables.privacy(reader.load(p))
            if (row.attack, row.task, row.method, row.eta) == ("nearest", "movies", "rapt", "75")
        )
        return found

    assert row().cell == "nearest-movies-pct2t-75" and row().empirical_privacy is not None
    synthetic.write_cell(planned(p, "nearest-movies-rapt-75"))
    assert row().cell == "nearest-movies-rapt-75"


def test_attacks_that_have_not_run_are_each_run_by_its_own_command(experiment: Params) -> None:
    every = experiment.sweep.model_copy(update={"attacked": ["t2t", "pct2t", "rapt"]})
    p = experiment.model_copy(update={"sweep": every})
    planned(p, "nearest-movies-pct2t-75").path.unlink()
    for row in tables.privacy(reader.load(p)):
        if (row.attack, row.task, row.eta) == ("nearest", "movies", "75"):
            assert row.cell == f"nearest-movies-{row.method}-75"


def test_what_privatizes_alike_shares_no_attack_on_an_adapter(attacked: Params) -> None:
    rows = tables.privacy(reader.load(attacked))
    own = [row for row in rows if row.kind == "membership"]
    assert own
    assert all(row.cell.endswith(f"-{released(row.method, row.eta)}") for row in own)


def test_examples_mark_what_was_replaced(whole: Params) -> None:
    text = paths.REPORT.read_text()
    assert f"<q>{sentences()[0]['text']}</q>" in text
    assert sentences()[0]["text"] == "the emotions are raw and will strike a nerve"
    assert "<mark>synthetic1</mark>" in text
    assert "Anna Berger, 54, was admitted on 12 March" in text


def test_text_from_files_is_escaped(experiment: Params) -> None:
    examples = files.read_json("reports/examples.json")
    examples["sentences"][0]["releases"][0]["words"][1] = "<script>alert(1)</script>"
    files.write_json("reports/examples.json", examples)
    written = make(experiment)
    assert "<script>alert" not in written
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in written


def test_params_and_data_hashes_stand_in_the_report(whole: Params) -> None:
    text = paths.REPORT.read_text()
    yaml = Path("params.yaml").read_text()
    opening = '<pre tabindex="0" role="region" aria-label="params.yaml">'
    shown = re.search(rf"{opening}(.*?)</pre>", text, re.S)
    assert shown
    lines = [line for line in yaml.splitlines() if line]
    assert html.unescape(re.sub(r"</?i>", "", shown[1])).splitlines() == lines
    assert files.sha256("params.yaml") in text
    assert files.read_json("reports/gates/raw/movies.json")["sha256"]["train"] in text


def test_what_was_left_out_of_each_task_is_said(whole: Params) -> None:
    row = '<th scope="row">tweets</th><td>6,444</td><td class="left">722 excluded, 4,322 not drawn'
    assert f"{row}</td><td>1,000</td><td>400</td>" in paths.REPORT.read_text()


def test_pruning_removes_what_is_not_planned(experiment: Params) -> None:
    cell = planned(experiment, "movies-minilm-lora-rapt-75")
    stray = replace(cell, cell="movies-minilm-lora-rapt-33")
    synthetic.write_cell(stray)
    assert reader.prune(experiment) == [stray.path]
    assert not stray.path.exists()
    assert all(planned.path.is_file() for planned in plan(experiment))


def test_metrics_are_plain_numbers_by_kind_and_cell(whole: Params) -> None:
    metrics = files.read_json("reports/metrics.json")
    assert set(metrics) == {"train", "study", "invert", "infer", "recognize"}
    cell = files.read_json("reports/cells/train/movies-minilm-lora-rapt-75.json")
    assert metrics["train"][cell["cell"]] == {
        "accuracy": round(cell["metrics"]["accuracy"]["mean"], 4)
    }
    assert set(metrics["infer"]["mlp-tweets-t2t-50"]) == {
        "accuracy_author",
        "empirical_privacy_author",
    }


@pytest.fixture
def denoised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A whole synthetic experiment with one denoiser on t2t."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAPT_HOME", raising=False)
    return synthetic.write(tmp_path, synthetic.denoise_t2t)


def test_a_denoised_cell_is_a_row_beside_its_method(
    denoised: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Page(make(denoised)).text
    label = "t2t + posterior-mean"
    own = [r for r in rows("reports/tables/utility.csv") if r["kind"] == "denoise"]
    assert [(r["method"], r["denoiser"], r["eta"]) for r in own] == [
        ("t2t", "posterior-mean", eta) for eta in denoised.sweep.etas
    ]
    assert {r["series"] for r in rows("reports/plots/utility.csv")} >= {
        f"movies minilm lora {name}" for name in ("t2t", label)
    }
    # The plain row is its own, and not overwritten by the denoised one.
    assert tables.labels(tables.utility(reader.load(denoised))) == ["t2t", "pct2t", "rapt", label]
    assert f"{label} less t2t" in text
    assert "read with posterior-mean too" in text
    print_results(denoised)
    assert label in capsys.readouterr().out


def test_what_is_denoised_is_paired_with_its_method_and_has_its_release_s_privacy(
    denoised: Params,
) -> None:
    make(denoised)
    found = [r for r in rows("reports/tables/differences.csv") if "+" in r["method"]]
    assert [r["against"] for r in found] == ["t2t"] * len(denoised.sweep.etas)
    for row in found:
        name = f"movies-minilm-lora-t2t-{row['eta']}"
        own, other = (
            files.read_json(f"reports/cells/{cell}.json")["metrics"]["accuracy"]["mean"]
            for cell in (f"denoise/{name}-posterior-mean", f"train/{name}")
        )
        assert float(row["mean"]) == pytest.approx(own - other, abs=1e-5)
    drawn = [f for f in figures(reader.load(denoised)) if f.section == "trade-off"]
    assert drawn
    for figure in drawn:
        shown = dict(re.findall(r"\b(t2t[^,;:]*), η 75: ([\d.]+) and", figure.description))
        assert shown["t2t"] == shown["t2t + posterior-mean"]


@pytest.fixture
def attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A whole synthetic experiment whose adapters, of two tuners, are asked for members."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAPT_HOME", raising=False)
    return synthetic.write(tmp_path, synthetic.infer_membership)


def test_membership_has_a_table_for_each_adapter(
    attacked: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Page(make(attacked)).text
    own = [r for r in rows("reports/tables/privacy.csv") if r["kind"] == "membership"]
    assert {(r["target"], r["tuner"], r["majority"]) for r in own} == {
        ("membership", tuner, "0.5") for tuner in ("lora", "prefix")
    }
    assert len(own) == 2 * (len(attacked.sweep.methods) * len(attacked.sweep.tune_at) + 1)
    cell = files.read_json("reports/cells/membership/loss-movies-minilm-lora-t2t-75.json")
    (row,) = (r for r in own if r["cell"] == cell["cell"])
    means = {name: found["mean"] for name, found in cell["metrics"].items()}
    assert float(row["attack_accuracy"]) == pytest.approx(means["auc"], abs=1e-6)
    assert float(row["tpr_at_1"]) == pytest.approx(means["tpr_at_1"], abs=1e-6)
    low = cell["metrics"]["empirical_privacy"]["low"]
    assert float(row["empirical_privacy_low"]) == pytest.approx(low, abs=1e-6)
    told = cell["metrics"]["tpr_at_1"]
    shown = [100 * told[bound] for bound in ("mean", "low", "high")]
    assert "{:.1f} % at 1 % FPR ({:.1f} to {:.1f})".format(*shown) in text
    assert float(row["tpr_at_1_high"]) == pytest.approx(told["high"], abs=1e-6)
    for tuner in ("lora", "prefix"):
        title = f"loss on movies · minilm · {tuner}: membership"
        assert f"{title} : empirical privacy" in text
    assert "loss infers the membership of movies" in text
    print_results(attacked)
    shown = " ".join(capsys.readouterr().out.split())
    assert "loss on movies · minilm · prefix: membership: empirical privacy" in shown


def test_membership_is_traded_off_against_its_own_adapter_alone(attacked: Params) -> None:
    drawn = {f.name: f for f in figures(reader.load(attacked)) if "membership" in f.name}
    name = "movies-minilm-{0}-loss-movies-minilm-{0}-membership"
    trade_offs = {f"pareto-{name.format(tuner)}" for tuner in ("lora", "prefix")}
    assert {n for n, f in drawn.items() if f.section == "trade-off"} == trade_offs
    # A denoised cell's adapter is another one, which was not asked.
    for name in trade_offs:
        assert "posterior-mean" not in drawn[name].description + drawn[name].svg


def test_no_denoiser_leaves_no_trace_in_the_page(whole: Params) -> None:
    assert " + posterior" not in Page(paths.REPORT.read_text()).text.split("params.yaml")[0]
    assert all(not r["denoiser"] for r in rows("reports/tables/utility.csv"))


def test_plots_are_tidy(whole: Params) -> None:
    plot = rows("reports/plots/utility.csv")
    assert list(plot[0]) == ["eta", "method", "mean", "series"]
    assert [row["eta"] for row in plot] == sorted((r["eta"] for r in plot), key=float)
    assert rows("reports/plots/privacy.csv")


def test_two_seeds_are_too_few_and_three_decide(experiment: Params) -> None:
    def with_seeds(cell: str, values: list[float]) -> None:
        seeds = [
            {"seed": k, "metrics": {"accuracy": v}, "curves": {}} for k, v in enumerate(values)
        ]
        synthetic.write_cell(planned(experiment, cell), seeds=seeds)

    def row() -> tables.Difference:
        found = tables.differences(reader.load(experiment))
        return next(r for r in found if (r.method, r.against, r.eta) == ("pct2t", "t2t", "75"))

    assert row().verdict == "too few seeds to tell"
    with_seeds("movies-minilm-lora-t2t-75", [0.60, 0.62, 0.61])
    with_seeds("movies-minilm-lora-pct2t-75", [0.65, 0.68, 0.66])
    assert row().mean == pytest.approx(0.16 / 3)
    # Student's interval by hand: sd of (0.05, 0.06, 0.05), t = 4.3027 at 2 degrees of freedom.
    assert row().low == pytest.approx(0.16 / 3 - 4.3027 * 0.0057735 / 3**0.5, abs=1e-5)
    assert row().verdict == "higher"
    text = Page(make(experiment)).text
    assert "pct2t less t2t" in text and "too few seeds to tell" in text


def test_a_sentence_tells_of_all_eta_where_they_are_few() -> None:
    assert narrative.told(["100", "50", "75", "25"]) == ["25", "50", "75", "100"]
    assert narrative.told(["110", "25", "47", "60", "75"]) == ["25", "60", "110"]


def test_the_papers_and_their_claims_stand_in_the_page(whole: Params) -> None:
    text = Page(paths.REPORT.read_text()).text
    # Table II: at η = inf for another setting, so it has a star and no difference.
    accuracy = files.read_json("reports/cells/train/movies-minilm-lora-clean.json")
    ours = f"{100 * accuracy['metrics']['accuracy']['mean']:.1f} ± "
    row = "movies minilm lora clean inf 91.4* sst2 · bert-base-uncased · lora · η = inf"
    assert f"{row} {ours}" in text
    results = reader.load(whole)
    for table in papers(results):
        assert f"{table.source}: {table.title} ({table.ran} of {len(table.rows)})" in text
    for claim in claims(results):
        assert claim.sentence in text
    missing = next(
        row for table in papers(results) for row in table.rows if row.command and row.missing
    )
    assert f"missing {missing.command}" in text


def test_eta_stands_beside_the_papers_and_by_the_share(whole: Params) -> None:
    replacement, inversion = beside(reader.load(whole))
    assert replacement.etas == ["25", "75", "125", "150", "175"]
    assert list(replacement.rows) == [
        "published: bert-base-uncased (RAPT, table III)",
        "here: minilm",
    ]
    printed, ours = replacement.rows.values()
    assert list(printed.values()) == ["94", "85", "45", "14", "5"]
    assert ours == {
        "25": "99.0",
        "75": "50.0",
        "125": "10.0",
        "150": "5.0",
    }  # 175 was not calibrated
    printed, ours = inversion.rows.values()
    assert (printed["150"], ours["150"]) == ("85.0", "95.0")
    text = Page(paths.REPORT.read_text()).text
    assert "published: bert-base-uncased (RAPT, table III) 94 85 45 14 5" in text
    assert "here: minilm 99.0 50.0 10.0 5.0 –" in text
    assert "t2t 50.0 75.0 73.5 – 76.5 minilm" in text
    assert "t2t 10.0 103.0 101.5 – ∞ minilm" in text  # no η is known to be too large
    first = rows("reports/tables/targets.csv")[0]
    assert (first["replaced"], first["eta"], first["eta_low"]) == ("0.9", "47.0", "45.5")


def test_deniability_and_geometry_are_shown(whole: Params) -> None:
    found = rows("reports/tables/channels.csv")
    sweep = whole.sweep
    assert len(found) == 2 * len(sweep.embeddings) * len(sweep.channels) * len(sweep.etas)
    row = next(r for r in found if (r["method"], r["eta"], r["choice"]) == ("t2t", "75", "sampled"))
    assert (row["n_w_5"], row["n_w_median"], row["n_w_95"]) == ("125.0", "500.0", "750.0")
    text = Page(paths.REPORT.read_text()).text
    assert "t2t 75 300 sampled 80 50.0 47.0 – 53.0 500 125 – 750 21" in text
    nearest = rows("reports/tables/neighbours.csv")[0]
    assert float(nearest["eta"]) == pytest.approx(384 / float(nearest["mean"]), rel=1e-5)
    drawn = {path.name for path in Path("reports/figures").iterdir()}
    names = ("n-w-minilm", "s-w-minilm", "geometry-minilm")
    assert {f"{name}.{suffix}" for name in names for suffix in ("svg", "png")} <= drawn


def test_hidden_states_are_drawn_where_they_were_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAPT_HOME", raising=False)
    params = synthetic.write(tmp_path, synthetic.compare_layers)
    drawn = {f.name: f for f in figures(reader.load(params)) if f.section == "layers"}
    group = "movies-minilm-lora"
    assert set(drawn) == {
        f"layers-{group}",
        f"states-{group}-t2t-75",
        f"states-{group}-rapt-75",
    }
    last = files.read_json(f"reports/statistics/layers/{group}-t2t-75.json")["layers"][-1]
    told = f"t2t, η 75, layer {last['layer']}: {last['distance']['mean']:.3g}"
    assert told in drawn[f"layers-{group}"].description
    assert 'id="layers"' in make(params)
    (Path("reports/statistics/layers") / f"{group}-t2t-75.json").unlink()
    assert len([f for f in figures(reader.load(params)) if f.section == "layers"]) == 2


def test_no_hidden_states_leave_no_section(whole: Params) -> None:
    assert 'id="layers"' not in paths.REPORT.read_text()


def _of_preset(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    Path("params.yaml").write_text(presets.text(name), encoding="utf-8")
    p = load()
    for cell in plan(p):
        synthetic.write_cell(cell)
    return p


def test_the_figures_of_a_study_are_drawn_over_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = _of_preset("study-length", tmp_path, monkeypatch)
    (drawn,) = (f for f in figures(reader.load(p)) if f.section == "papers")
    lengths = ("0", "10", "20", "40", "80")
    places = [drawn.description.index(f"η 75, {length}: ") for length in lengths]
    assert "RAPT (arXiv 2305.06212v3), Figure 5" in drawn.caption and len(set(places)) == 5
    assert f'<figure id="{drawn.name}">' in make(p)


def test_categories_are_drawn_without_broken_attacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = _of_preset("attacks-categories", tmp_path, monkeypatch)

    def drawn() -> list[Figure]:
        return [f for f in settings(reader.load(p)) if "nearest-movies" in f.name]

    (figure,) = drawn()
    assert "η 75, noun: " in figure.description and ", verb: " in figure.description
    assert "η 75, noun, verb, pronoun, preposition: " in figure.description
    synthetic.break_attack(planned(p, "nearest-movies-clean"))
    assert drawn() == []


def test_two_settings_are_no_figure(whole: Params) -> None:
    """The demo has no plain tokens, as PCT2T, and those of RAPT."""
    assert [row for row in paper_table(reader.load(whole), "rapt-figure-5").rows if not row.missing]
    assert list(settings(reader.load(whole))) == []


def test_a_sweep_without_channels_has_none(experiment: Params) -> None:
    none = experiment.sweep.model_copy(update={"channels": []})
    text = Page(make(experiment.model_copy(update={"sweep": none}))).text
    assert "The sweep names no channel" in text
    assert rows("reports/tables/channels.csv") == []


def test_terminal_shows_the_tables_and_where_the_report_lies(
    whole: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    print_results(whole)
    out = capsys.readouterr().out
    assert "accuracy, % (floor 51.0; clean text, unprotected 82." in out
    assert out.rstrip().endswith(str(paths.REPORT.resolve()))


def test_a_failing_mirror_does_not_fail_the_stage(
    experiment: Params, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(params: Params) -> None:
        raise OSError("disk\nfull")

    monkeypatch.setattr(mlflow_mirror, "sync", fail)
    report.main()
    assert paths.REPORT.is_file()
    assert capsys.readouterr().err == (
        "warning: MLflow is not up to date (disk full); rapt sync mends it\n"
    )
