"""Planned cells beside printed numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rapt import presets
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting.papers.published_values import read
from rapt.reporting.papers.table import as_printed, to_tex
from tests.conftest import ROOT
from tests.reporting import synthetic
from tests.reporting.papers.conftest import EDGE, found, planned


def test_only_the_same_setting_is_subtracted(on_bert: Params) -> None:
    table = found(on_bert)["rapt-table-2"]
    wanted = ["sst2", "bert", "lora", "t2t", "75"]
    row = next(row for row in table.rows if list(row.factors.values()) == wanted)
    assert row.published == 53.1 and row.mean is not None
    assert row.difference == pytest.approx(row.mean - 53.1)
    assert not row.orientation


def test_another_setting_is_orientation_and_never_subtracted(whole: Params) -> None:
    for table in found(whole, benchmarks=EDGE).values():
        for row in table.rows:
            if row.mean is not None:
                assert row.difference is None
                assert row.orientation == (row.published is not None)


def test_orientation_is_at_the_eta_that_replaces_as_many_words(whole: Params) -> None:
    """Of the synthetic releases t2t replaces 86 % at η 50: of the paper's, 85 % at 75."""
    rows = found(whole)["rapt-table-2"].rows
    row = next(r for r in rows if (r.factors["method"], r.factors["eta"]) == ("t2t", "50"))
    assert row.beside == (
        "sst2 · bert-base-uncased · lora · η = 75, where 85.0 % of the words are replaced"
    )
    clean = next(r for r in rows if r.factors["eta"] == "inf")
    assert clean.beside == "sst2 · bert-base-uncased · lora · η = inf"


def test_what_is_missing_names_what_runs_it(on_bert: Params) -> None:
    tables = found(on_bert)
    own = {cell.command for cell in plan(on_bert)}
    rows = tables["rapt-table-2"].rows
    missing = [row for row in rows if row.missing]
    assert {row.command for row in missing} & own
    assert {row.command for row in missing} - own == {
        *(
            f"rapt preset paper-nlu-{model}, then dvc repro {stage}"
            for model in ("bert", "qwen")
            for stage in ("train", "train-clean")
        ),
        None,  # TP-UK, which is not public; pct2t and rapt on clean text
    }
    stages = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
    names = "|".join(presets.names())
    with_preset = re.compile(rf"rapt preset (?:{names}), then dvc repro ((?: ?[a-z-]+)+)")
    for table in tables.values():
        for row in table.rows:
            if row.command and (match := with_preset.fullmatch(row.command)):
                assert set(match[1].split()) <= set(stages)
            else:
                assert row.command is None or row.command.startswith(("dvc repro ", "make "))


def test_every_printed_number_of_a_table_stands_in_it_once(on_bert: Params) -> None:
    """Whether as its own row, or beside the cell of its setting: the params sweep few of them."""
    tables = found(on_bert)
    names = {
        "rapt-table-2": ("utility.csv", "rapt-v3", "II"),
        "rapt-table-4": ("utility.csv", "rapt-v3", "IV"),
        "rapt-v2-table-5": ("utility.csv", "rapt-v2", "V"),
        "rapt-table-5": ("ablations.csv", "rapt-v3", "V"),
        "rapt-table-6": ("ablations.csv", "rapt-v3", "VI"),
        "rapt-table-7": ("ablations.csv", "rapt-v3", "VII"),
        "rapt-table-8": ("ablations.csv", "rapt-v3", "VIII"),
        "rapt-table-9": ("utility.csv", "rapt-v3", "IX"),
        "qu-table-3": ("inversion.csv", "qu-2021", "3"),
        "qu-table-4": ("utility.csv", "qu-2021", "4"),
        "qu-table-5": ("utility.csv", "qu-2021", "5"),
        "qu-table-6": ("pretraining.csv", "qu-2021", "6"),
        "qu-table-7": ("pretraining.csv", "qu-2021", "7"),
    }
    for name, (file, *numbering) in names.items():
        shown = [r.published for r in tables[name].rows if not r.orientation]
        rows = [r for r in read(file) if [r["source"], r["table"]] == numbering]
        assert len(rows) >= 5
        printed = sorted(float(row["value"]) for row in rows)
        assert sorted(value for value in shown if value is not None) == printed


def test_generated_text_stands_beside_no_accuracy(on_bert: Params) -> None:
    for name in ("rapt-table-7", "rapt-table-8"):
        table = found(on_bert)[name]
        own = [r for r in table.rows if r.factors["task"] == "webnlg, BLEU"]
        assert {row.command for row in own} == {
            "rapt preset paper-study-webnlg, then dvc repro score"
        }
        assert not [row for row in table.rows if row.beside and "webnlg" in row.beside]


def test_a_variant_of_rapt_stands_in_the_study_of_what_it_varies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = found(planned("paper-study-webnlg", tmp_path, monkeypatch))
    settings = {
        "rapt-table-7": {"rapt": "uniform", "rapt-frequency": "frequency"},
        "rapt-table-8": {
            "rapt": "rapt",
            "rapt-no-objective": "without_reconstruction",
            "pct2t": "without_plain_tokens",
        },
    }
    for name, of_methods in settings.items():
        own = [row for row in tables[name].rows if row.factors["backbone"] == "qwen"]
        assert {(r.factors["method"], r.factors["setting"]) for r in own} == {*of_methods.items()}
        assert all(row.published and not row.orientation for row in own)
        assert "2e-05" not in tables[name].differs and "batch" not in tables[name].differs


def test_a_group_of_test_rows_stands_beside_its_own_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = planned("paper-webnlg-t5", tmp_path, monkeypatch)
    cell = next(c for c in plan(p) if (c.kind, c.cell) == ("score", "webnlg-t5-prefix-rapt-1"))
    values = {"bleu": 0.4, "bleu_of_seen": 0.5, "bleu_of_not-seen": 0.3}
    metrics = {name: {"mean": value, "sd": None, "n": 1} for name, value in values.items()}
    synthetic.write_cell(cell, metrics=metrics)
    table = found(p)["rapt-v2-table-5"]
    own = [row for row in table.rows if not row.missing]
    assert [(row.factors["group"], row.mean, row.published) for row in own] == [
        ("all", 40, 43.12),
        ("seen", 50, 45.54),
        ("not-seen", 30, 27.48),
    ]
    assert all(row.difference for row in own)
    assert "table of words" not in table.differs and "batch" not in table.differs


def test_a_bleu_beyond_every_known_system_is_marked(on_bert: Params) -> None:
    tables = found(on_bert)
    marked = {name: [r for r in t.rows if r.beyond] for name, t in tables.items()}
    counts = {name: len(rows) for name, rows in marked.items() if rows}
    assert counts == {"rapt-table-4": 33, "rapt-table-7": 2, "rapt-table-8": 1}
    for name, table in tables.items():
        assert ("†" in (table.note or "")) == (name in counts)
    row = max(marked["rapt-table-4"], key=lambda row: row.published or 0)
    assert as_printed(row, "%")[0] == "88.1†"
    assert r"& 88.1$\dagger$ &" in to_tex(tables["rapt-table-4"])


def test_questions_have_their_exact_match_beside_the_same_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = planned("paper-mmlu", tmp_path, monkeypatch)
    cell = next(c for c in plan(p) if (c.kind, c.cell) == ("train", "mmlu-qwen-lora-t2t-25"))
    values = {"accuracy": 0.3, "exact_match": 0.2}
    metrics = {name: {"mean": value, "sd": None, "n": 1} for name, value in values.items()}
    synthetic.write_cell(cell, metrics=metrics)
    own = [row for row in found(p)["rapt-table-4"].rows if not row.missing]
    assert [(row.factors["task"], row.mean) for row in own] == [
        ("mmlu", 30),
        ("mmlu, exact match", 20),
    ]
    assert own[0].published == own[1].published is not None
    assert not any(row.orientation for row in own)


def test_pretraining_is_shown_as_not_built(whole: Params) -> None:
    for name in ("qu-table-6", "qu-table-7"):
        table = found(whole)[name]
        assert table.note == "Not built: this project does not pretrain."
        assert table.rows and all(row.missing and row.command is None for row in table.rows)


@pytest.mark.parametrize(
    ("preset", "names"),
    [
        ("paper-nlu-bert", ["rapt-table-2"]),
        ("paper-nlu-qwen", ["rapt-table-2"]),
        ("paper-qu", ["qu-table-3", "qu-table-4", "qu-table-5"]),
        ("paper-qu-sst2", ["qu-table-4"]),
        ("paper-qu-qqp", ["qu-table-5"]),
        ("paper-llm", ["rapt-table-9"]),
        ("paper-study-prefix-length", ["rapt-table-6"]),
        ("paper-webnlg", ["rapt-table-4"]),
        ("paper-mmlu", ["rapt-table-4"]),
        ("paper-webnlg-t5", ["rapt-v2-table-5"]),
        ("paper-study-webnlg", ["rapt-table-7", "rapt-table-8"]),
    ],
)
def test_the_papers_presets_leave_no_printed_row_over(
    preset: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = found(planned(preset, tmp_path, monkeypatch))
    for name in names:
        rows = tables[name].rows
        assert [row for row in rows if row.published is not None and not row.orientation]
        others = [row.command for row in rows if row.command and "rapt preset" in row.command]
        assert not [command for command in others if f"rapt preset {preset}," in command]
        # Of these two presets have a backbone each, or a task.
        assert not others or name in (
            *("rapt-table-2", "rapt-table-4", "rapt-table-7", "rapt-table-8"),
            *("qu-table-4", "qu-table-5"),
        )
