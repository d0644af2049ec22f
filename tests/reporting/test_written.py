"""The table of written texts, and where a reader meets it."""

from pathlib import Path
from typing import Any

import pytest

from rapt import params
from rapt.reporting import mlflow_mirror, summary, tables, utility_table
from rapt.reporting.page import render
from rapt.reporting.written import by_task, written
from rapt.results import reader
from tests.reporting import synthetic
from tests.reporting.conftest import table


def edit(content: dict[str, Any]) -> None:
    """Beside film reviews, a task of texts in its place."""
    texts = {**content["tasks"]["movies"], "kind": "generate", "references": "texts"}
    content["tasks"]["texts"] = texts | {"label": None, "protect": "entities"}
    content["sweep"] |= {"tasks": ["movies", "tweets", "texts"], "train": ["movies", "texts"]}
    content["sweep"] |= {"score": ["texts"]}


@pytest.fixture
def results(folder: Path) -> reader.Results:
    p = synthetic.write(folder, edit)
    for cell in reader.load(p).of("train", task="texts"):
        seeds = [{"seed": k, "metrics": {"finished": 0.9}, "curves": {}} for k in range(2)]
        finished = {"finished": {"mean": 0.9, "sd": 0.0, "n": 2}}
        synthetic.write_cell(cell.plan, metrics=finished, seeds=seeds, baselines={})
    for cell in reader.load(p).of("local", task="texts"):
        metrics = {"bleu": 0.208, "bleu_of_seen": 0.24, "bleu_human": 0.458}
        one = {name: {"mean": value, "sd": None, "n": 1} for name, value in metrics.items()}
        synthetic.write_cell(cell.plan, metrics=one)
    return reader.load(params.load())


def test_a_row_for_each_cell_and_group(results: reader.Results) -> None:
    rows = written(results)
    assert {(row.task, row.group) for row in rows} == {("texts", "all"), ("texts", "seen")}
    first, seen = rows[:2]
    assert (first.method, first.unprotected, first.protect) == ("clean", True, "entities")
    assert (first.copied, first.human) == (0.208, 0.458)
    assert (seen.copied, seen.human, seen.chrf) == (0.24, None, None)
    assert first.bleu_low is not None and first.bleu is not None
    assert first.bleu_low < first.bleu
    assert len(rows) == 2 * len(results.of("score"))


def test_what_writes_has_no_accuracy(results: reader.Results) -> None:
    assert {row.task for row in utility_table.utility(results)} == {"movies"}
    assert set(tables.metrics(results)["score"]) == {c.plan.cell for c in results.of("score")}


def test_the_page_the_file_and_the_terminal_say_the_same(
    results: reader.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    page = render(results, [])
    assert "BLEU of the source as it is: 20.8." in page
    assert "nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:" in page
    assert "One reference against the others: 45.8." in page
    rows = table(results.params, "written")
    clean = next(row for row in rows if row["method"] == "clean" and row["group"] == "all")
    shown = f"{100 * float(clean['bleu']):.1f}"
    assert f"<b>{shown}" in page
    summary.print_results(results.params)
    said = capsys.readouterr().out
    assert "texts · minilm · lora: BLEU, %" in said
    assert shown in said
    assert len(summary.as_json(results.params)["written"]) == len(rows)


def test_a_cell_that_has_not_run_says_what_runs_it(results: reader.Results) -> None:
    cell = results.of("score")[0]
    cell.plan.path.unlink()
    again = reader.load(results.params)
    (row, groups), *_ = next(iter(by_task(again).values()))
    assert row.bleu is None
    assert groups == []
    assert row.command in render(again, [])


def test_the_run_of_the_model_that_wrote_has_the_scores(results: reader.Results) -> None:
    cell = next(cell for cell in results.of("train", task="texts"))
    record = mlflow_mirror.record(results, cell)
    assert {"bleu", "ter", "entity_recall"} <= {name for name, _, _ in record.metrics}
    assert record.params["decoding.beams"] == "5"
    assert "over_local" not in {name for name, _, _ in record.metrics}
