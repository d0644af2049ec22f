"""The tables as rows, as files and in the page, from synthetic cells."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rapt import params, paths
from rapt.analysis.effects import FALSE_ALARMS
from rapt.grid import CLEAN, plan, released
from rapt.params import Params
from rapt.public_labels import PUBLIC_LABELS
from rapt.reporting import mlflow_mirror, published_claims, tables, utility_table
from rapt.reporting.figures import figures
from rapt.reporting.narrative import advice, headline
from rapt.reporting.page import render
from rapt.reporting.rows import Row, frame, to_csv
from rapt.reporting.summary import as_json, print_results
from rapt.reporting.writer import plots
from rapt.results import predictions, reader
from rapt.results.predictions import Successes
from rapt.utils import files
from tests.every_section import add_public_labels
from tests.reporting import synthetic
from tests.reporting.conftest import Page, page, planned, rows, table


def test_rows_are_computed_once_for_the_same_results(whole: Params) -> None:
    results = reader.load(whole)
    assert tables.privacy(results) is tables.privacy(results)
    assert tables.privacy(results) is not tables.privacy(reader.load(whole))


def test_a_csv_has_six_places_and_leaves_unknown_values_empty() -> None:
    made = [Row(a=1, b=0.12345678, c=None, d="x, y"), {"a": 2, "b": None, "c": False, "e": 0}]
    text = to_csv(frame(made, ("a", "b", "c", "d")))
    assert text == 'a,b,c,d\n1,0.123457,,"x, y"\n2,,False,\n'
    assert to_csv(frame([], ("a", "b"))) == "a,b\n"


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
    shares = {"local": 0.7, "t2t": 0.5, "pct2t": 0.9, "rapt": 0.71, CLEAN: 0.95}
    synthetic.write_predictions(experiment, shares)
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


@pytest.mark.parametrize(
    ("clean", "expected"),
    [(0.71, "Send nothing. A local model reaches"), (0.9, "Send none of these releases.")],
)
def test_the_advice_says_which_world_it_is(experiment: Params, clean: float, expected: str) -> None:
    shares = {"local": 0.7, "t2t": 0.5, "pct2t": 0.6, "rapt": 0.5, CLEAN: clean}
    synthetic.write_predictions(experiment, shares)
    said = dict(headline(reader.load(experiment)))["Advice"]
    assert said.startswith(expected)
    worth = re.search(
        r"lora, is as good as a local model with about ([\d,]+) labels \(.* to .*\): with fewer",
        said,
    )
    assert worth


def test_a_provider_with_public_labels_stands_beside_the_tuned_ones(empty: Path) -> None:
    """Its best release is as good as a local model of 100 labels, and in the advice."""
    p = synthetic.write(empty, add_public_labels)
    shares = {"local": 0.7, "t2t": 0.5, "pct2t": 0.6, "rapt": 0.5, CLEAN: 0.9}
    synthetic.write_predictions(p, shares)
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
    shares = {"local": 0.7, "t2t": 0.5, "pct2t": 0.6, "rapt": 0.5, CLEAN: 0.9}
    synthetic.write_predictions(experiment, shares)
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


@pytest.mark.parametrize("attack", ["bayes", "nearest"])
@pytest.mark.parametrize(("read", "leaks"), [(0.9, False), (0.98, True)])
def test_the_advice_tells_a_leak(experiment: Params, read: float, leaks: bool, attack: str) -> None:
    """More is read than the channel of single words tells: 95 % in these cells."""
    shares = {"local": 0.7, "t2t": 0.5, "pct2t": 0.9, "rapt": 0.5, CLEAN: 0.95}
    synthetic.write_predictions(experiment, shares)
    for eta in experiment.sweep.etas:
        synthetic.recover(planned(experiment, f"{attack}-movies-pct2t-{eta}"), read)
    said = dict(headline(reader.load(experiment)))["Advice"].replace("\xa0", " ")
    assert f"{attack} reads {100 * read:.1f} % of its protected words" in said
    assert ("Do not send it before you know why" in said) == leaks


def test_the_strongest_attack_reads_words_or_links_texts(experiment: Params) -> None:
    """In the advice and beside each release; the words that are sent as they are stay beside it."""
    shares = {"local": 0.7, "t2t": 0.5, "pct2t": 0.9, "rapt": 0.5, CLEAN: 0.95}
    synthetic.write_predictions(experiment, shares)
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


def _against(row: dict[str, str]) -> str:
    if float(row["over_local_p"]) > 0.05:
        return "undecided"
    return "better" if float(row["over_local"]) > 0 else "worse"


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


def test_unprotected_cells_are_marked_everywhere(whole: Params) -> None:
    text = paths.REPORT.read_text()
    marked = re.findall(r"clean text(?:<br>| )<span class=\"badge\">unprotected</span>", text)
    whole_attacks = {(r["attack"], r["task"]) for r in rows("reports/tables/privacy.csv")}
    assert len(marked) == 1 + 1 + len(whole_attacks)  # utility, all attacks, each attack
    for name in ("utility", "privacy"):
        for row in rows(f"reports/tables/{name}.csv"):
            assert (row["protection"] == "unprotected") == (row["eta"] == "inf")


def test_privacy_table_shows_baseline_and_clean_baseline(whole: Params) -> None:
    row = next(r for r in rows("reports/tables/privacy.csv") if r["cell"] == "mlp-tweets-t2t-50")
    privacy, attack = float(row["empirical_privacy"]), float(row["attack_accuracy"])
    assert privacy == pytest.approx(1 - attack, abs=1e-5)
    assert (row["target"], row["majority"], row["broken"]) == ("author", "0.55", "False")
    clean = files.read_json("reports/cells/infer/mlp-tweets-clean.json")
    assert float(row["clean_accuracy"]) == pytest.approx(
        clean["metrics"]["accuracy_author"]["mean"], abs=1e-6
    )


def test_entities_are_a_target_with_f1_for_accuracy(folder: Path) -> None:
    p = synthetic.write(folder, synthetic.recognize_entities)
    text = page(p).text
    assert "ner on movies: entities" in text
    own = [row for row in table(p, "privacy") if row["kind"] == "recognize"]
    assert len(own) == 2 * (3 * 2 + 1)
    row = next(row for row in own if row["cell"] == "ner-movies-t2t-50")
    cell = files.read_json("reports/cells/recognize/ner-movies-t2t-50.json")
    assert float(row["attack_accuracy"]) == pytest.approx(cell["metrics"]["f1"]["mean"], abs=1e-6)
    assert (row["target"], row["attack_accuracy_all_words"]) == ("entities", "")
    names = {figure.name for figure in figures(reader.load(p))}
    assert "pareto-movies-minilm-lora-ner-movies-entities" in names
    assert not [name for name in names if name.startswith("pareto") and "ner-tweets" in name]


def test_an_inversion_of_triples_tells_whole_entities(folder: Path) -> None:
    p = synthetic.write(folder)
    cell = planned(p, "nearest-movies-t2t-50")
    metrics = synthetic.write_cell(cell)["metrics"]
    whole = {"accuracy_entities": {"mean": 0.123, "sd": None, "n": 1}}
    synthetic.write_cell(cell, metrics=metrics | whole)
    assert "of whole entities 12.3 %" in page(p).text
    told = {row["attack_accuracy_entities"] for row in table(p, "privacy")}
    assert told == {"0.123", ""}


def test_who_knows_the_channel_of_clean_text_reads_it_all(whole: Params) -> None:
    own = [row for row in tables.privacy(reader.load(whole)) if row.attack == "bayes"]
    assert own and not any(row.unprotected for row in own)
    assert all(row.doubt is None and row.clean_accuracy == 1 for row in own)


@pytest.mark.parametrize(
    ("even", "odd", "read"),
    [((0.5, 0.3), (0.4, 0.2), 0.45), ((0.5, 0.3), (0.2, 0.4), (0.2 + 0.3) / 2)],
    ids=["one is the strongest", "each is lucky on a half"],
)
def test_the_strongest_attack_is_chosen_on_other_texts(
    experiment: Params, even: tuple[float, float], odd: tuple[float, float], read: float
) -> None:
    results = reader.load(experiment)
    found = next(r for r in tables.privacy(results) if (r.kind, r.method) == ("invert", "t2t"))
    attacks = [
        found.but(
            attack=f"attack-{k}",
            broken=False,
            counts=True,
            given=None,
            attack_accuracy=(even[k] + odd[k]) / 2,
            texts=Successes(["even", "odd"], np.array([[[even[k], odd[k]], [1, 1]]])),
        )
        for k in (0, 1)
    ]
    strongest = tables.strongest(attacks)
    assert strongest and strongest.attack_accuracy == pytest.approx(read)
    assert strongest.attack == "attack-0"
    old = attacks[0].but(texts=None, attack_accuracy=0.9)
    assert tables.strongest([old, attacks[1]]) is old  # a cell of an earlier version


def test_what_an_attacker_has_read_is_named(experiment: Params) -> None:
    cell = planned(experiment, "bayes-movies-t2t-75")
    how = {"type": "bayesian-in-context", "public_text": ["tweets"]}
    content = experiment.model_dump(mode="json")
    content["attacks"]["bayes"] = how
    read = params.validate(content)
    assert "public texts; texts of tweets" in {
        r.attacker_knowledge.partition(", ")[2] for r in _rows_of(read)
    }
    synthetic.write_cell(cell, counts={"texts of tweets": 1200})
    assert any("; 1,200 texts of tweets" in row.attacker_knowledge for row in _rows_of(read))


def _rows_of(p: Params) -> list[Row]:
    return [row for row in tables.privacy(reader.load(p)) if row.attack == "bayes"]


def test_what_the_attacker_knows_stands_beside_every_result(experiment: Params) -> None:
    for cell in plan(experiment):
        if cell.factors.get("attack") == "bayes":
            cell.path.unlink()
    text = page(experiment).text
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
    for row in table(experiment, "privacy"):
        assert row["attacker_knowledge"] == experiment.attacks[row["attack"]].attacker_knowledge


def test_the_error_of_guessed_vectors_stands_beside_clean_text_and_its_baseline(
    experiment: Params,
) -> None:
    for eta, error in {"50": 0.0123, "75": 0.0087, "inf": 0.0009}.items():
        release = CLEAN if eta == "inf" else f"t2t-{eta}"
        cell = planned(experiment, f"nearest-movies-{release}")
        content = synthetic.write_cell(cell)
        unknown = {"low": None, "high": None} if eta == "50" else {}
        found = {"squared_error": synthetic.metric(error, error / 2) | unknown}
        baselines = content["baselines"] | {"squared_error": 0.0234}
        synthetic.write_cell(cell, metrics=content["metrics"] | found, baselines=baselines)
    text = page(experiment).text
    own = [r for r in table(experiment, "privacy") if r["squared_error"]]
    names = ("eta", "squared_error", "squared_error_low", "squared_error_high")
    assert [tuple(row[name] for name in names) for row in own] == [
        ("inf", "0.0009", "0.00045", "0.00135"),
        ("50", "0.0123", "", ""),
        ("75", "0.0087", "0.00435", "0.01305"),
    ]
    beside = {(row["clean_squared_error"], row["squared_error_baseline"]) for row in own}
    assert beside == {("0.0009", "0.0234")}
    assert "squared error 0.0087 (0.00435 to 0.013)" in text
    for value, times in {"0.0123": 1, "0.0087": 1, "0.0009": 1, "0.0234": 1}.items():
        assert text.count(f"squared error {value}") == times


def test_what_privatizes_alike_shares_the_attacks_on_its_releases(whole: Params) -> None:
    rows = tables.privacy(reader.load(whole))
    found = {(row.attack, row.task, row.method, row.eta): row for row in rows}
    own = found["bayes", "movies", "pct2t", "75"]
    assert found["bayes", "movies", "rapt", "75"] == own.but(method="rapt", label="rapt")
    assert {row.method for row in rows} == {*whole.sweep.methods, CLEAN}


def test_an_attack_that_has_not_run_leaves_the_one_on_what_privatizes_alike(
    experiment: Params,
) -> None:
    every = experiment.sweep.model_copy(update={"attacked": ["t2t", "pct2t", "rapt"]})
    p = experiment.model_copy(update={"sweep": every})

    def row() -> Row:
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


def test_membership_has_a_table_for_each_adapter(
    attacked: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page(attacked).text
    own = [r for r in table(attacked, "privacy") if r["kind"] == "membership"]
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
    assert row["others"] == str(cell["counts"]["others"])
    told = cell["metrics"]["tpr_at_01"]
    shown = [100 * told[bound] for bound in ("mean", "low", "high")]
    few = "{:.1f} % at 0.1 % FPR ({:.1f} to {:.1f}): above all 500 others, too few for 0.1 %"
    assert few.format(*shown) in text
    assert "too few for 1 %" not in text
    for tuner in ("lora", "prefix"):
        title = f"loss on movies · minilm · {tuner}: membership"
        assert f"{title} , told from others (AUC), %" in text
    print_results(attacked)
    shown = " ".join(capsys.readouterr().out.split())
    assert "loss on movies · minilm · prefix: membership, told from others (AUC), % (" in shown


def test_no_denoiser_leaves_no_trace_in_the_page(whole: Params) -> None:
    assert " + posterior" not in Page(paths.REPORT.read_text()).text.split("params.yaml")[0]
    assert all(not r["denoiser"] for r in rows("reports/tables/utility.csv"))


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


def test_the_eta_of_a_share_stands_with_its_interval(whole: Params) -> None:
    text = Page(paths.REPORT.read_text()).text
    assert "t2t 50.0 75.0 73.5 – 76.5 minilm" in text
    assert "t2t 10.0 103.0 101.5 – ∞ minilm" in text  # no η is known to be too large
    first = rows("reports/tables/targets.csv")[0]
    assert (first["replaced"], first["eta"], first["eta_low"]) == ("0.9", "47.0", "45.5")


def test_a_calibration_is_listed_by_its_eta(experiment: Params) -> None:
    path = Path("reports/calibration/minilm.json")
    content = files.read_json(path)
    content["curves"]["t2t"].reverse()
    files.write_json(path, content)
    of_t2t = [row for row in table(experiment, "calibration") if row["mechanism"] == "t2t"]
    etas = [float(row["eta"]) for row in of_t2t]
    assert len(etas) > 3 and etas == sorted(etas)


def test_a_sweep_without_channels_has_none(experiment: Params) -> None:
    none = experiment.sweep.model_copy(update={"channels": []})
    p = experiment.model_copy(update={"sweep": none})
    assert "The sweep names no channel" in page(p).text
    assert table(p, "channels") == []


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
