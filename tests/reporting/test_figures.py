"""Which figures are drawn, and of what, from synthetic cells."""

import re
from itertools import product
from pathlib import Path

import pytest

from rapt import paths, presets
from rapt.grid import plan
from rapt.params import Params, load
from rapt.reporting import utility_table
from rapt.reporting.charts import Figure
from rapt.reporting.figures import accuracies, figures, settings
from rapt.reporting.page import render
from rapt.results import reader
from rapt.utils import files
from tests.reporting import synthetic
from tests.reporting.conftest import page, planned

# Each test draws a whole page.
pytestmark = pytest.mark.slow


def test_a_tuner_at_one_eta_has_one_column_and_clean_text_stands_below(folder: Path) -> None:
    p = synthetic.write(folder, synthetic.tune_at_one)
    results, text = reader.load(p), page(p).text
    assert "minilm tuned with lora (at η = 75) and prompt on movies;" in text
    assert re.search(r"Method η = 75 t2t [\d.]+ ± [\d.]+ 50.0 % replaced pct2t", text)
    assert re.search(r"Method η = 50 η = 75 t2t .*? clean text unprotected 8\d\.\d ± ", text)
    lora, prompt = (f for f in accuracies(utility_table.utility(results)))
    assert "η 50" not in lora.description and "t2t, η 50" in prompt.description
    assert "clean text (unprotected)" in lora.description and "η inf" not in lora.description


def test_membership_is_traded_off_against_its_own_adapter_alone(attacked: Params) -> None:
    drawn = {f.name: f for f in figures(reader.load(attacked)) if "membership" in f.name}
    name = "movies-minilm-{0}-loss-movies-minilm-{0}-membership"
    trade_offs = {f"pareto-{name.format(tuner)}" for tuner in ("lora", "prefix")}
    assert {n for n, f in drawn.items() if f.section == "trade-off"} == trade_offs
    # A denoised cell's adapter is another one, which was not asked.
    for name in trade_offs:
        assert "posterior-mean" not in drawn[name].description + drawn[name].svg


def test_membership_has_a_roc_curve_at_each_eta(attacked: Params) -> None:
    drawn = {f.name: f for f in figures(reader.load(attacked)) if f.name.startswith("roc-")}
    assert set(drawn) == {
        f"roc-loss-movies-minilm-{tuner}-membership-{eta}"
        for tuner, eta in product(("lora", "prefix"), attacked.sweep.tune_at)
    }
    figure = drawn["roc-loss-movies-minilm-lora-membership-75"]
    cell = files.read_json("reports/cells/membership/loss-movies-minilm-lora-t2t-75.json")
    told = 100 * cell["metrics"]["tpr_at_01"]["mean"]
    assert f"t2t, at 0.1 %: {told:.3g};" in figure.description
    scales = [channel.encoding("x")["scale"]["type"] for channel in (figure.x, figure.y)]
    assert scales == ["log", "log"]
    assert figure.svg.startswith("<svg")


def test_hidden_states_are_drawn_where_they_were_compared(folder: Path) -> None:
    params = synthetic.write(folder, synthetic.compare_layers)
    drawn = {f.name: f for f in figures(reader.load(params)) if f.section == "layers"}
    group = "movies-minilm-lora"
    assert set(drawn) == {f"layers-{group}", f"states-{group}-t2t-75", f"states-{group}-rapt-75"}
    last = files.read_json(f"reports/statistics/layers/{group}-t2t-75.json")["layers"][-1]
    told = f"t2t, η 75, layer {last['layer']}: {last['distance']['mean']:.3g}"
    assert told in drawn[f"layers-{group}"].description
    assert 'id="layers"' in render(reader.load(params), [])
    (Path("reports/statistics/layers") / f"{group}-t2t-75.json").unlink()
    assert len([f for f in figures(reader.load(params)) if f.section == "layers"]) == 2


def test_no_hidden_states_leave_no_section(whole: Params) -> None:
    assert 'id="layers"' not in paths.REPORT.read_text()


def _of_preset(name: str) -> Params:
    Path("params.yaml").write_text(presets.text(name), encoding="utf-8")
    p = load()
    for cell in plan(p):
        synthetic.write_cell(cell)
    return p


def test_the_figures_of_a_study_are_drawn_over_its_settings(folder: Path) -> None:
    p = _of_preset("study-length")
    (drawn,) = settings(reader.load(p))
    synthetic.write_predictions(p, {"local": 0.7, "rapt": 0.8, "pct2t": 0.8})
    assert [f.rows for f in settings(reader.load(p))] == [drawn.rows]  # without the local model's
    lengths = ("0", "5", "20", "40", "80")
    places = [drawn.description.index(f"η 75, {length}: ") for length in lengths]
    assert "RAPT (arXiv 2305.06212v3), Figure 5" in drawn.caption and len(set(places)) == 5
    assert f'<figure id="{drawn.name}">' in render(reader.load(p), [drawn])


def test_categories_are_drawn_without_broken_attacks(folder: Path) -> None:
    p = _of_preset("attacks-categories")

    def drawn() -> list[Figure]:
        return [f for f in settings(reader.load(p)) if "nearest-movies" in f.name]

    (figure,) = drawn()
    assert "η 75, noun: " in figure.description and ", verb: " in figure.description
    assert "η 75, noun, verb, pronoun, preposition: " in figure.description
    synthetic.break_attack(planned(p, "nearest-movies-clean"))
    assert drawn() == []


def test_two_settings_are_no_figure(whole: Params) -> None:
    """The demo has no plain tokens, as PCT2T, and those of RAPT."""
    assert list(settings(reader.load(whole))) == []
