"""The tables of attacks as rows, as files and in the page, from synthetic cells."""

import re
from pathlib import Path

import numpy as np
import pytest

from rapt import params, paths
from rapt.grid import CLEAN, plan, released
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.figures import figures
from rapt.reporting.rows import Row, frame, to_csv
from rapt.reporting.summary import print_results
from rapt.results import reader
from rapt.results.predictions import Successes
from rapt.utils import files
from tests.reporting import synthetic
from tests.reporting.conftest import page, planned, rows, swept, table


def test_rows_are_computed_once_for_the_same_results(whole: Params) -> None:
    results = reader.load(whole)
    assert tables.privacy(results) is tables.privacy(results)
    assert tables.privacy(results) is not tables.privacy(reader.load(whole))


def test_a_csv_has_six_places_and_leaves_unknown_values_empty() -> None:
    made = [Row(a=1, b=0.12345678, c=None, d="x, y"), {"a": 2, "b": None, "c": False, "e": 0}]
    text = to_csv(frame(made, ("a", "b", "c", "d")))
    assert text == 'a,b,c,d\n1,0.123457,,"x, y"\n2,,False,\n'
    assert to_csv(frame([], ("a", "b"))) == "a,b\n"


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
    assert found.attack_accuracy_low is not None and strongest.attack_accuracy_low is not None
    moved = read - (even[0] + odd[0]) / 2  # and its interval with it
    assert strongest.attack_accuracy_low == pytest.approx(found.attack_accuracy_low + moved)
    texts = attacks[1].but(group=("attack-1", "movies", "texts"))  # no share of the same target
    alone = tables.strongest([attacks[0], texts])
    assert alone and alone.attack_accuracy == attacks[0].attack_accuracy
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
    p = swept(experiment, attacked=["t2t", "pct2t", "rapt"])

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
    p = swept(experiment, attacked=["t2t", "pct2t", "rapt"])
    planned(p, "nearest-movies-pct2t-75").path.unlink()
    for row in tables.privacy(reader.load(p)):
        if (row.attack, row.task, row.eta) == ("nearest", "movies", "75"):
            assert row.cell == f"nearest-movies-{row.method}-75"


def test_what_privatizes_alike_shares_no_attack_on_an_adapter(attacked: Params) -> None:
    rows = tables.privacy(reader.load(attacked))
    own = [row for row in rows if row.kind == "membership"]
    assert own
    assert all(row.cell.endswith(f"-{released(row.method, row.eta)}") for row in own)


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
