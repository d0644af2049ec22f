"""The table of what each release is worth, against sending nothing and clean text."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rapt import paths
from rapt.analysis.effects import FALSE_ALARMS
from rapt.grid import CLEAN, PUBLIC_LABELS, plan
from rapt.params import Params
from rapt.reporting import mlflow_mirror, published_claims, tables, utility_table
from rapt.reporting.figures import figures
from rapt.reporting.narrative import headline
from rapt.reporting.page import render
from rapt.reporting.summary import as_json, print_results
from rapt.reporting.writer import plots
from rapt.results import predictions, reader
from rapt.utils import files
from tests.every_section import add_public_labels
from tests.reporting import synthetic
from tests.reporting.conftest import Page, page, planned, rows, table


def test_utility_table_shows_mean_sd_and_replaced_share(experiment: Params) -> None:
    cell = planned(experiment, "movies-minilm-lora-pct2t-75")
    seeds = [{"seed": k, "metrics": {"accuracy": 0.7 + k / 50}, "curves": {}} for k in (0, 1)]
    synthetic.write_cell(
        cell, metrics={"accuracy": {"mean": 0.71, "sd": 0.0141421356, "n": 2}}, seeds=seeds
    )
    text = page(experiment).text
    assert "71.0 ± 1.4 45.0 % replaced" in text
    row = next(r for r in table(experiment, "utility") if r["cell"] == cell.cell)
    assert (row["accuracy"], row["accuracy_sd"], row["seeds"]) == ("0.71", "0.014142", "2")
    assert (row["majority"], row["replaced_share"]) == ("0.51", "0.45")


def test_releases_are_compared_with_sending_nothing(
    experiment: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    """T2T is worse, and costs nothing beside the local model; PCT2T pays; RAPT is as good."""
    synthetic.write_predictions(experiment, synthetic.ONE_PAYS | {"rapt": 0.71})
    text = page(experiment).text
    own = [r for r in table(experiment, "utility") if (r["kind"], r["eta"]) == ("train", "75")]
    verdicts = {(r["method"], r["with_local"]): _against(r) for r in own}
    assert verdicts == {
        ("t2t", "False"): "worse", ("t2t", "True"): "undecided",
        ("pct2t", "False"): "better", ("pct2t", "True"): "better",
        ("rapt", "False"): "undecided", ("rapt", "True"): "undecided",
    }  # fmt: skip
    assert next(r for r in own if r["with_local"] == "True")["over_local"] == "0.0"
    assert "A release pays: pct2t at η" in text
    assert "pct2t + local 75 90.0" in text
    print_results(experiment)
    printed = capsys.readouterr().out
    assert "nothing sent " in printed and "t2t + local" in printed


def _against(row: dict[str, str]) -> str:
    if float(row["over_local_p"]) > 0.05:
        return "undecided"
    return "better" if float(row["over_local"]) > 0 else "worse"


def test_answers_about_other_texts_are_not_compared(experiment: Params) -> None:
    """After an interruption the local model's may be of the rows of an earlier seed."""
    synthetic.write_predictions(experiment, synthetic.NONE_PAYS)
    path = paths.predictions("local", "movies")
    local = predictions.read(path)
    for labels in (1 - local["test"].labels, local["test"].labels[:-1]):
        n = len(labels)
        test = predictions.Predictions(
            local["test"].examples[:n], labels, local["test"].logits[:, :n]
        )
        predictions.write(path, local | {"test": test})
        rows = utility_table.utility(reader.load(experiment))
        assert all(row.over_local is None for row in rows)


def test_a_provider_with_public_labels_stands_beside_the_tuned_ones(empty: Path) -> None:
    """Its best release is as good as a local model of 100 labels, and in the advice."""
    p = synthetic.write(empty, add_public_labels)
    synthetic.write_predictions(p, synthetic.NONE_PAYS)
    by_labels = {"accuracy_with_25": 0.6, "accuracy_with_100": 0.65, "accuracy": 0.7}
    for cell in reader.planned(p):
        metrics = {"accuracy": 0.65 if cell.cell == "movies/pct2t-75" else 0.55}
        if cell.kind in ("local", PUBLIC_LABELS):
            known = by_labels if cell.kind == "local" else metrics
            found = {name: synthetic.metric(mean, 0.01) for name, mean in known.items()}
            synthetic.write_cell(cell, metrics=found)
    own = [r for r in table(p, "utility") if r["kind"] == PUBLIC_LABELS]
    etas = [("clean", "inf"), *product(("t2t", "pct2t", "rapt"), ("50", "75"))]
    alone = [r for r in own if r["with_local"] == "False"]
    assert [(r["method"], r["eta"]) for r in alone] == etas
    worth = {r["cell"]: r["break_even"] for r in alone}
    assert worth.pop("movies/pct2t-75") == "100.0" and {*worth.values()} == {"0.0"}
    results = reader.load(p)
    (best,) = (cell for cell in results.of(PUBLIC_LABELS) if cell.plan.cell == "movies/pct2t-75")
    run = mlflow_mirror.record(results, best)
    assert run.name == "public_labels-movies/pct2t-75"
    assert run.params["backbone"] == "reviews" and "model.backbone" not in run.params
    logged = {name: value for name, value, _ in run.metrics}
    assert (logged["accuracy"], logged["break_even"]) == pytest.approx((0.65, 100))
    assert logged["break_even_low"] < 100 < logged["break_even_high"]
    assert "bayes/empirical_privacy" in logged
    said = dict(headline(results))["Advice"].replace("\xa0", " ")
    assert said.count("labels (") + said.count("labels.") == 2  # of the tuned ones, too
    assert said.endswith(
        "The best for a provider who has the labels of reviews and none of yours, pct2t at "
        "η = 75, is as good as a local model with about 100 labels (57 to 250): with fewer of "
        "your own it pays."
    )
    drawn = {figure.name for figure in figures(results)}
    assert "labels-movies-reviews-public_labels" in drawn
    text = page(p).text
    assert "movies · reviews · public_labels" in text and "100 57 to 250" in text
    assert "learnt from the public task alone" in text
    assert {r["tuner"] for r in as_json(p)["levels"]} == {"lora", PUBLIC_LABELS}
    pruned = reader.prune(p.model_copy(update={"public_labels": {}}))
    assert len(pruned) == len(etas) and not any(path.exists() for path in pruned)


FOUND = "text that differs in what the policy finds"


@pytest.mark.parametrize("unit", ["text", "author", "client", FOUND])
def test_a_model_that_was_tuned_privately_at_home_is_told_apart(
    experiment: Params, capsys: pytest.CaptureFixture[str], unit: str
) -> None:
    """It is not called unprotected, and it is no release."""
    counts = {"text": {}, FOUND: {"words_found": 50}}.get(unit, {f"{unit}s": 50})
    training = {"epsilon": 3.0, "delta": 1e-5} | counts
    synthetic.write_predictions(experiment, synthetic.NONE_PAYS)
    for cell in plan(experiment):
        if cell.kind == "train" and cell.factors["method"] == CLEAN:
            synthetic.write_cell(cell, training=training)
    text = page(experiment).text
    assert f"clean text trained privately, ε = 3 per {unit}" in text
    said = dict(headline(reader.load(experiment)))["Advice"].replace("\xa0", " ")
    assert said.startswith("Send none of these releases.")
    assert f"with differential privacy of ε = 3 per {unit}, a model to hand on reaches" in said
    clean = [r for r in table(experiment, "utility") if r["training_epsilon"]]
    assert {(r["kind"], r["method"]) for r in clean} == {("train", CLEAN)}
    print_results(experiment)
    assert f"clean text, trained privately, ε = 3 per {unit}" in capsys.readouterr().out


def test_few_experiments_find_a_release_better_that_is_not() -> None:
    """Of 200, at most 2.5 % expected; 17 or more have a chance below 1e-4."""
    rng = np.random.default_rng(0)
    rows: list[Any] = [SimpleNamespace(group=group, with_local=False) for group in "aaabbbccc"]
    wrong = found = 0
    for _ in range(200):
        family = {}
        for at in range(len(rows)):
            right = rng.random((2, 3, 100)) < 0.75 + 0.02 * rng.standard_normal((2, 3, 1))
            family[at] = right[0].astype(float) - right[1]
        wrong += any(_is_better(rows, family))
        family[4] += 0.4
        found += _is_better(rows, family)[4]
    assert wrong < 17
    assert found > 190


def _is_better(rows: list[Any], family: dict[int, Any]) -> list[bool]:
    judged = utility_table._against_local(rows, family)
    return [
        judged[at]["over_local_p"] <= FALSE_ALARMS and over.mean() > 0
        for at, over in family.items()
    ]


@pytest.fixture
def denoised(folder: Path) -> Params:
    """A whole synthetic experiment with one denoiser on t2t."""
    return synthetic.write(folder, synthetic.denoise_t2t)


def test_a_denoised_cell_is_a_row_beside_its_method(
    denoised: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page(denoised).text
    label = "t2t + posterior-mean"
    own = [r for r in table(denoised, "utility") if r["kind"] == "denoise"]
    assert [(r["method"], r["denoiser"], r["eta"]) for r in own] == [
        ("t2t", "posterior-mean", eta) for eta in denoised.sweep.etas
    ]
    plot = plots(reader.load(denoised))["utility.csv"]
    assert all(f",movies minilm lora {name}\n" in plot for name in ("t2t", label))
    # The plain row is its own, and not overwritten by the denoised one.
    assert utility_table.labels(utility_table.utility(reader.load(denoised))) == [
        "t2t",
        "pct2t",
        "rapt",
        label,
    ]
    assert f"{label} less t2t" in text
    assert "read with posterior-mean too" in text
    print_results(denoised)
    assert label in capsys.readouterr().out


def test_what_is_denoised_is_paired_with_its_method_and_has_its_release_s_privacy(
    denoised: Params,
) -> None:
    found = [r for r in table(denoised, "differences") if "+" in r["method"]]
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


def test_no_denoiser_leaves_no_trace_in_the_page(whole: Params) -> None:
    assert " + posterior" not in Page(paths.REPORT.read_text()).text.split("params.yaml")[0]
    assert all(not r["denoiser"] for r in rows("reports/tables/utility.csv"))


def test_synthetic_texts_stand_beside_methods_at_their_epsilon(empty: Path) -> None:
    """In rows, tables, figures and advice; what papers claim of methods is not about them."""

    def edit(content: dict[str, Any]) -> None:
        content["sweep"].update(synthesizers=["generator"], epsilons=[3, 8])

    p = synthetic.write(empty, edit)
    rights = {"local": 0.6, "t2t": 0.5, "generator": 0.9, "clean": 0.95}
    synthetic.write_predictions(p, rights)
    results = reader.load(p)
    own = [row for row in utility_table.utility(results) if row.method == "generator"]
    assert {(row.label, row.eta) for row in own} >= {("generator", "3"), ("generator", "8")}
    assert all(row.against_local == "better" for row in own)
    assert "synthetic texts by generator at ε = 3 and 8" in Page(render(results, [])).text
    (grid,) = tables.grids([row for row in own if not row.with_local] + [own[0].but(label="t2t")])
    assert grid.etas == ["3", "8"]
    assert [row and row.eta for row in grid.placed("t2t")] == [own[0].eta, None]
    series = {row["series"] for drawn in figures(results) for row in drawn.rows}
    assert "generator" in series
    claim = published_claims.statements()["utility-rises"]
    settings = [pair.setting for pair in published_claims.pairs(results, claim, set())]
    assert any("t2t" in each for each in settings)
    assert not [each for each in settings if "generator" in each]


def test_held_out_synthetic_rows_weigh_no_local_model(empty: Path) -> None:
    def edit(content: dict[str, Any]) -> None:
        content["sweep"].update(synthesizers=["generator"], epsilons=[3])

    p = synthetic.write(empty, edit)
    synthetic.write_predictions(p, {"local": 0.6, "t2t": 0.5, "generator": 0.9})
    (cell,) = [c for c in plan(p) if c.stage == "train-synthetic"]
    found = predictions.read(cell.predictions)
    held_out = found["train"]
    found["train"] = replace(held_out, examples=[f"synthetic-{at}" for at in held_out.examples])
    predictions.write(cell.predictions, found)
    rows = utility_table.utility(reader.load(p))
    assert {row.with_local for row in rows if row.method == "t2t"} == {True, False}
    assert {row.with_local for row in rows if row.method == "generator"} == {False}
