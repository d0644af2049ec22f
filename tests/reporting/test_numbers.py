"""The report, `dvc metrics`, `dvc plots` and MLflow show the same numbers under the same names."""

import pytest
from ruamel.yaml import YAML

from rapt.params import Params
from rapt.reporting import mlflow_mirror
from rapt.reporting.figures import CLEAN_TEXT, figures
from rapt.results import reader
from rapt.utils import files
from tests.conftest import ROOT
from tests.reporting.conftest import rows

METRIC = {"utility": "accuracy", "privacy": "empirical_privacy"}


def test_mlflow_has_every_metric_of_dvc(whole: Params) -> None:
    results = reader.load(whole)
    metrics = files.read_json("reports/metrics.json")
    for cell in results.cells:
        logged = {name: value for name, value, _ in mlflow_mirror.record(results, cell).metrics}
        own = metrics[cell.plan.kind][cell.plan.cell]
        assert {name: logged[name] for name in own} == pytest.approx(own, abs=5e-5)


def test_the_plots_of_dvc_are_of_the_tables(whole: Params) -> None:
    plots = YAML(typ="safe").load(ROOT / "dvc.yaml")["plots"]
    drawn = {
        path: column
        for plot in plots
        for body in plot.values()
        for path, column in body["y"].items()
    }
    assert drawn == {f"reports/plots/{name}.csv": "mean" for name in METRIC}
    for name, metric in METRIC.items():
        ours = {row[metric] for row in rows(f"reports/tables/{name}.csv")}
        assert {row["mean"] for row in rows(f"reports/plots/{name}.csv")} == ours


def test_tables_show_the_metrics_of_dvc(whole: Params) -> None:
    metrics = files.read_json("reports/metrics.json")
    for row in rows("reports/tables/utility.csv"):
        accuracy = metrics[row["kind"]][row["cell"]]["accuracy"]
        assert float(row["accuracy"]) == pytest.approx(accuracy, abs=5e-5)


def test_figures_draw_the_numbers_of_the_tables(whole: Params) -> None:
    def values(section: str, name: str, series: str | None = None) -> list[float]:
        found = [row for figure in drawn if figure.section == section for row in figure.rows]
        own = [row for row in found if ("x" in row if series is None else row["series"] == series)]
        return sorted(row[name] for row in own)

    drawn = figures(reader.load(whole))
    utility = [row for row in rows("reports/tables/utility.csv") if row["kind"] != "study"]
    private = rows("reports/tables/privacy.csv")
    for section, own, metric in (
        ("accuracy", utility, "accuracy"),
        ("privacy", private, "attack_accuracy"),
    ):
        found = sorted(100 * float(row[metric]) for row in own if row["method"] != "clean")
        assert values(section, "y") == pytest.approx(found, abs=5e-3)
    (clean,) = {100 * float(row["accuracy"]) for row in utility if row["method"] == "clean"}
    assert values("accuracy", "y", CLEAN_TEXT) == pytest.approx([clean], abs=5e-3)
    assert set(values("trade-off", "y")) <= set(values("accuracy", "y"))
    assert set(values("trade-off", "x")) <= set(values("privacy", "y"))
