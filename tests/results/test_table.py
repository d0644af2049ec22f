"""An experiment kept as one table is read back as it was."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from rapt import paths
from rapt.cli import app
from rapt.reporting.comparisons import differences
from rapt.results import predictions, reader, table
from rapt.results.predictions import Successes
from rapt.results.reader import Results
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.reporting import synthetic

RIGHT = {"t2t": 0.6, "pct2t": 0.7, "rapt": 0.65, "local": 0.72}


def at_a_level(content: dict[str, Any]) -> None:
    content["sweep"] |= {"etas": [75, "replaced-50"], "tune_at": [75, "replaced-50"]}


@pytest.fixture
def results(empty: Path) -> Results:
    """A whole experiment in the working folder, with answers to single texts."""
    p = synthetic.write(empty, at_a_level)
    synthetic.write_predictions(p, RIGHT)
    return reader.load(p)


@pytest.mark.parametrize("name", ["cells.csv", "cells.parquet"])
def test_what_is_read_is_what_was_written(results: Results, name: str) -> None:
    path = Path(name)
    table.write(results, path)
    ran = [cell.content for cell in results.cells]
    assert table.read_cells(path) == ran
    found = table.read(results.params, path)
    assert [cell.content for cell in found.cells] == ran
    assert len({cell.plan.kind for cell in found.cells}) > 5
    for cell in found.cells:
        assert found.replaced(cell.factors) == results.replaced(cell.factors)
        assert found.eta_found(cell.factors) == results.eta_found(cell.factors)
    assert any(found.eta_found(cell.factors) for cell in found.cells)


def test_a_text_released_as_a_whole_has_no_share_but_an_eta(results: Results) -> None:
    for gate in results.private_gates.values():
        if gate:
            gate["replaced"] = []
    table.write(results, Path("cells.csv"))
    found = table.read(results.params, Path("cells.csv"))
    etas = [found.eta_found(cell.factors) for cell in found.cells]
    assert etas == [results.eta_found(cell.factors) for cell in results.cells] and any(etas)
    assert not any(found.replaced(cell.factors) for cell in found.cells)


def test_differences_are_paired_by_the_answers_kept(results: Results) -> None:
    path = Path("cells.csv")
    table.write(results, path)
    rows = differences(table.read(results.params, path))
    assert rows == differences(results)
    assert {row.texts for row in rows} >= {400}
    answers = files.read_parquet(table.ANSWERS)
    one = answers.filter(pc.equal(answers["cell"], answers["cell"][0]))
    assert one["seed"].to_pylist() == [0] * 400 + [1] * 400
    for cell in results.cells:
        cell.plan.predictions.unlink(missing_ok=True)
    table.write(reader.load(results.params), path)
    assert not Path(table.ANSWERS).exists()
    assert {row.texts for row in differences(table.read(results.params, path))} == {None}


def test_a_cell_of_a_table_reads_nothing_of_the_project_around(results: Results) -> None:
    """An attack's successes on single texts are in the project alone."""
    attack = results.of("invert")[0]
    counts = np.ones((2, 2, 3), np.int64)
    predictions.write(attack.plan.predictions, {"accuracy": Successes(["a", "b", "c"], counts)})
    assert attack.successes
    table.write(results, Path("cells.csv"))
    assert not table.read(results.params, Path("cells.csv")).of("invert")[0].successes


def test_a_row_names_its_cell_release_and_run(results: Results) -> None:
    run = {"commit": "0f3", "machine": "Linux, AMD", "device": "cpu", "seconds": 1.5}
    cell = next(cell for cell in results.of("train", method="rapt") if cell.content)
    files.write_json(paths.run("train", cell.plan.cell), run)
    cell.plan.path.with_name("another.json").write_text("outside the plan")
    table.write(results, Path("cells.csv"))
    with Path("cells.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["cell"] == cell.plan.cell]
    last = [row for row in rows if row["metric"] == "accuracy"][-1]
    assert cell.content
    seed, metric = cell.content.seeds[-1], cell.content.metrics["accuracy"]
    assert {name: last[name] for name in cell.factors} == cell.factors
    assert float(last["value"]) == seed.metrics["accuracy"] and last["step"] == ""
    assert (float(last["low"]), float(last["high"])) == (metric.low, metric.high)
    assert last["seed"] == str(seed.seed) and last["count.test"] == "500"
    assert {name: last[name] for name in run} == {name: str(x) for name, x in run.items()}
    assert [row["step"] for row in rows if row["metric"] == "task_loss"][:2] == ["0", "1"]


def test_cells_that_have_not_run_are_missing_in_both(results: Results) -> None:
    gone = results.of("train")[0]
    gone.plan.path.unlink()
    table.write(reader.load(results.params), Path("cells.csv"))
    (missing,) = table.read(results.params, Path("cells.csv")).missing()
    assert missing.plan == gone.plan


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cells.xlsx", r"--table: got 'cells.xlsx', expected a name that ends in .csv or .parquet"),
        ("answers.parquet", r"--table: got 'answers.parquet', expected .* other than answers"),
        ("no/cells.csv", r"--table: got 'no/cells.csv', expected a path in a folder that exists"),
    ],
)
def test_a_wrong_place_is_refused(results: Results, name: str, message: str) -> None:
    with pytest.raises(RaptError, match=message):
        table.write(results, Path(name))


def test_nothing_is_written_before_a_cell_has_run(results: Results) -> None:
    for cell in results.cells:
        cell.plan.path.unlink()
    with pytest.raises(RaptError, match=r"--table: got no cell that has run, expected one"):
        table.write(reader.load(results.params), Path("cells.csv"))
    assert not Path("cells.csv").exists()


def test_the_command_writes_the_table_of_the_project(results: Results) -> None:
    done = CliRunner().invoke(app, ["results", "--table", "cells.csv"])
    assert (done.exit_code, done.output) == (0, "cells.csv\n")
    assert table.read_cells(Path("cells.csv")) == [cell.content for cell in results.cells]
