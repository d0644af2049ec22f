"""The papers' printed numbers beside ours."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting import published
from rapt.results import reader
from rapt.results.cells import summary
from tests.conftest import ROOT
from tests.reporting import synthetic
from tests.reporting.conftest import swept

EDGE = {
    "machine": {"cores": 2, "cpu": "a processor"},
    "edge": [
        {"name": "time, 10 words (the paper's Pi: 0.03 s)", "value": 0.05},
        {"name": "time, 100 words (the paper's Pi: 0.05 s)", "value": 0.07},
        {"name": "peak memory over the interpreter, 10 words", "value": 57.5},
        {"name": "time of rapt privatize, 10 words", "value": 3.2},
    ],
}


def found(p: Params, **factors: str) -> pd.DataFrame:
    rows = published.joined(reader.load(p))
    for name, value in factors.items():
        rows = rows[rows[name] == value]
    return rows


def one(p: Params, **factors: str) -> Any:
    (row,) = found(p, **factors).itertuples()
    return row


def planned(preset: str) -> Params:
    """A preset of which nothing has run."""
    Path("params.yaml").write_text(presets.text(preset), encoding="utf-8")
    return params.load()


def write(p: Params, kind: str, name: str, **means: float) -> None:
    cell = next(c for c in plan(p) if (c.kind, c.cell) == (kind, name))
    metrics = {
        name.replace("not_seen", "not-seen"): summary([mean]) for name, mean in means.items()
    }
    synthetic.write_cell(cell, metrics=metrics)


@pytest.fixture
def on_bert(folder: Path) -> Params:
    """A half-finished sweep of the paper's own setting: what t2t has at two η has run."""
    yaml = YAML()
    content = yaml.load(presets.text("paper-nlu-bert"))
    sweep = {"tasks": ["sst2"], "train": ["sst2"], "tuners": ["lora", "prefix"], "channels": []}
    content["sweep"].update(sweep, methods=["t2t", "rapt"], etas=[75, 150], tune_at=[75, 150])
    yaml.dump(content, Path("params.yaml"))
    p = params.load()
    for cell in plan(p):
        if cell.factors["method"] == "t2t":
            synthetic.write_cell(cell)
    return p


def test_only_the_same_setting_is_subtracted(on_bert: Params) -> None:
    where = {"backbone": "bert", "tuner": "lora", "method": "t2t", "eta": "75", "table": "II"}
    row = one(on_bert, source="rapt-v3", **where)
    assert (row.published, row.published_eta) == (53.1, "75")
    assert row.difference == pytest.approx(row.mean - 53.1)
    mean, difference = f"{row.mean:.1f}", f"{row.difference:+.1f}"
    spread = f"{mean}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{row.sd:.1f}"
    assert published.as_printed(row) == ("53.1", spread, "2", difference)


def test_another_setting_is_for_orientation_at_the_eta_that_replaces_as_many_words(
    whole: Params,
) -> None:
    """Of the synthetic releases t2t replaces 86 % at η 50: of the paper's, 85 % at 75."""
    ours = found(whole).dropna(subset="mean")
    assert len(ours) > 10 and ours["difference"].isna().all() and ours["published"].notna().all()
    row = one(whole, metric="accuracy", method="t2t", eta="50", task="movies")
    place = (row.published_task, row.published_backbone, row.published_eta, row.published_replaced)
    assert place == ("sst2", "bert-base-uncased", "75", 0.85)
    assert published.as_printed(row)[0] == "53.1*"
    clean = one(whole, metric="accuracy", method="clean", task="movies")
    assert (clean.published, clean.published_eta) == (91.4, "inf")
    words = one(whole, metric="replaced", eta="75", embedding="minilm")
    assert (words.mean, words.published, words.published_eta) == (50, 45, "125")


def test_the_nearest_number_is_of_the_same_task_if_there_is_one(folder: Path) -> None:
    p = planned("paper-nlu-bert")
    p = swept(p, train=["sst2", "qqp"], methods=["t2t"], etas=["60"], tune_at=["60"])
    for cell in plan(p):
        if cell.kind == "train" and cell.factors["tuner"] == "lora":
            synthetic.write_cell(cell)
            task, eta = cell.factors["task"], cell.factors["eta"]
            synthetic._release(f"{task}/t2t-{eta}", task, "t2t", eta)
    own = found(p, metric="accuracy", eta="60").dropna(subset="mean")
    assert len(own) > 1 and (own["published_task"] == own["task"]).all()


def test_a_cell_that_has_not_run_stands_beside_its_own_setting_alone(experiment: Params) -> None:
    cell = next(c for c in plan(experiment) if c.cell == "movies-minilm-lora-t2t-75")
    cell.path.unlink()
    assert not found(experiment, metric="accuracy", task="movies", method="t2t", eta="75").size


def test_every_printed_number_stands_in_the_table_once(on_bert: Params) -> None:
    rows = found(on_bert)
    own = rows[rows["difference"].notna() | rows["mean"].isna()]
    for at, printed in published.read().groupby(["source", "table"]):
        shown = own[(own["source"] == at[0]) & (own["table"] == at[1])]
        assert sorted(shown["published"]) == sorted(printed["value"]), at


def test_what_is_missing_names_what_runs_it(on_bert: Params) -> None:
    rows = found(on_bert)
    commands = set(rows[rows["mean"].isna()]["command"].dropna())
    assert commands & {cell.command for cell in plan(on_bert)}
    assert not rows[rows["mean"].notna()]["command"].any()
    stages = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
    names = "|".join(presets.names())
    with_preset = re.compile(rf"rapt preset (?:{names}), then dvc repro ((?: ?[a-z-]+)+)")
    for command in commands:
        if match := with_preset.fullmatch(command):
            assert set(match[1].split()) <= set(stages)
        else:
            assert command.startswith(("dvc repro ", "make "))


def test_a_number_without_a_preset_has_no_command(whole: Params) -> None:
    for own in (found(whole, study="pretraining"), found(whole, task="tpuk")):
        assert len(own) > 50 and own["mean"].isna().all() and own["command"].isna().all()


def test_generated_text_stands_beside_no_accuracy(on_bert: Params) -> None:
    rows = found(on_bert, published_task="webnlg")
    assert set(rows["metric"]) == {"bleu"} and rows["mean"].isna().all()
    own = rows[rows["study"] != ""]
    assert set(own["command"]) == {"rapt preset paper-study-webnlg, then dvc repro score"}


def test_a_variant_of_rapt_stands_in_the_study_of_what_it_varies(folder: Path) -> None:
    p = planned("paper-study-webnlg")
    studies = {
        "choice": {("rapt", "uniform"), ("rapt-frequency", "frequency")},
        "objective": {
            ("rapt", "rapt"),
            ("rapt-no-objective", "without_reconstruction"),
            ("pct2t", "without_plain_tokens"),
        },
    }
    for study, methods in studies.items():
        own = found(p, study=study, backbone="qwen")
        assert {*zip(own["method"], own["setting"], strict=True)} == methods
        assert (own["published_backbone"] == "qwen2.5-3b").all() and own["published"].all()


def test_a_group_of_test_rows_stands_beside_its_own_number(folder: Path) -> None:
    p = planned("paper-webnlg-t5")
    values = {"bleu": 0.4, "bleu_of_seen": 0.5, "bleu_of_not_seen": 0.3}
    write(p, "score", "webnlg-t5-prefix-rapt-1", **values)
    own = found(p, table="V", metric="bleu").dropna(subset="mean")
    assert [*own[["group", "mean", "published"]].itertuples(index=False, name=None)] == [
        ("all", 40, 43.12),
        ("seen", 50, 45.54),
        ("not-seen", 30, 27.48),
    ]
    assert own["difference"].all()


def test_questions_have_their_exact_match_beside_the_same_number(folder: Path) -> None:
    p = planned("paper-mmlu")
    write(p, "train", "mmlu-qwen-lora-t2t-25", accuracy=0.3, exact_match=0.2)
    own = found(p, task="mmlu", table="IV").dropna(subset="mean")
    assert [*own[["metric", "mean"]].itertuples(index=False, name=None)] == [
        ("accuracy", 30),
        ("exact match", 20),
    ]
    assert own["published"].nunique() == 1 and own["difference"].notna().all()


def test_a_bleu_beyond_every_known_system_is_marked(on_bert: Params) -> None:
    beyond = found(on_bert).query("beyond")
    assert beyond.groupby("table").size().to_dict() == {"IV": 33, "VII": 2, "VIII": 1}
    row: Any = max(beyond.itertuples(), key=lambda row: row.published)
    assert published.as_printed(row) == ("88.1†", "–", "–", "–")


def test_models_and_tuners_are_named_as_the_papers_do(whole: Params) -> None:
    def model(name: str) -> str:
        backbone = whole.backbones["minilm"].model_copy(update={"model": f"{name}@{40 * '0'}"})
        p = whole.model_copy(update={"backbones": {"own": backbone}})
        return published.paper_name(p, "backbone", "own")

    assert model("google-bert/bert-base-uncased") == "bert-base-uncased"
    assert model("meta-llama/Meta-Llama-3-8B") == "llama3-8b"
    assert published.paper_name(whole, "tuner", "lora") == "lora"
    assert published.paper_name(whole, "backbone", "bilstm") == "bilstm"


def test_table_10_has_ours_only_where_it_was_measured() -> None:
    rows = published.overhead(EDGE)
    assert len(rows) == len(published.overhead({})) == 16
    assert {row for row in rows if row[-1]} == {
        ("10 words", "seconds", 0.03, 0.05),
        ("100 words", "seconds", 0.05, 0.07),
        ("10 words", "MiB", 96.72, 57.5),
        ("10 words", "rapt privatize, seconds", None, 3.2),
    }


@pytest.mark.parametrize(
    "preset",
    [
        *("paper-nlu-bert", "paper-nlu-qwen", "paper-qu", "paper-qu-sst2", "paper-qu-qqp"),
        *("paper-llm", "paper-study-prefix-length", "paper-webnlg", "paper-mmlu"),
        *("paper-webnlg-t5", "paper-study-webnlg"),
    ],
)
def test_the_papers_presets_leave_no_printed_row_over(preset: str, folder: Path) -> None:
    rows = found(planned(preset))
    assert rows["command"].str.startswith("dvc repro ").sum() > 4  # its own cells
    train_or_score = rows["command"].str.contains(f"preset {preset}, then dvc repro (?!calib)")
    assert not rows[train_or_score.fillna(False)].size
