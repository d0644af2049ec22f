"""The papers' tables beside ours: golden on fixed cells, and what a row may say."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting.papers import UNPRINTED, PaperTable, papers
from rapt.reporting.papers.layout import layouts
from rapt.reporting.papers.rows import ROWS
from rapt.reporting.papers.settings import SETTINGS, backbone_name, model_name, tuner_name
from rapt.reporting.papers.table import to_csv
from rapt.reporting.published import read
from rapt.results import reader
from tests.conftest import ROOT
from tests.reporting import synthetic

GOLDEN = Path(__file__).parent / "golden"
EDGE = {
    "machine": {"cores": 2, "cpu": "a processor"},
    "edge": [
        {"name": "time, 10 words (the paper's Pi: 0.03 s)", "value": 0.05},
        {"name": "time, 100 words (the paper's Pi: 0.05 s)", "value": 0.07},
        {"name": "peak memory over the interpreter, 10 words", "value": 57.5},
        {"name": "time of rapt privatize, 10 words", "value": 3.2},
    ],
}


def found(p: Params, **more: Any) -> dict[str, PaperTable]:
    return {table.name: table for table in papers(reader.load(p), **more)}


def golden(tables: dict[str, PaperTable], name: str) -> None:
    """Compare with a committed file; where it is meant to change, write what is printed there."""
    text = "".join(f"# {t.name}: {t.differs}\n{to_csv(t)}" for t in tables.values())
    assert text == (GOLDEN / name).read_text(encoding="utf-8"), text


@pytest.fixture
def on_bert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A half-finished sweep of the paper's own setting: what t2t has at two etas has run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
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


def test_the_demos_tables_are_the_golden_ones(whole: Params) -> None:
    golden(found(whole), "demo.txt")


def test_the_papers_own_setting_half_finished_is_the_golden_one(on_bert: Params) -> None:
    names = ("rapt-table-2", "rapt-table-3", "rapt-table-6", "rapt-figure-7", "qu-table-3")
    tables = found(on_bert)
    golden({name: tables[name] for name in names}, "bert.txt")


def test_each_layout_names_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    for layout in layouts().values():
        assert layout.rows in {None, "overhead", *ROWS}
        assert layout.setting in {None, *SETTINGS}
        assert {entry["preset"] for entry in layout.presets} <= set(presets.names())
        assert {*layout.cells, *layout.without, *(layout.empty or ())} <= {
            *layout.columns,
            "command",
            "tuner",
        }


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
        assert table.note and "WebNLG" in table.note
        own = [r for r in table.rows if r.factors["task"] == "webnlg, BLEU"]
        assert own and all(row.missing and row.command is None for row in own)
        assert not [row for row in table.rows if row.beside and "webnlg" in row.beside]


def test_table_10_has_ours_only_where_it_was_measured(whole: Params) -> None:
    rows = found(whole, benchmarks=EDGE)["rapt-table-10"].rows
    ours = {(r.factors["words"], r.factors["measure"]): r.mean for r in rows if not r.missing}
    assert ours == {
        ("10", "time, s"): 0.05,
        ("100", "time, s"): 0.07,
        ("10", "peak memory, MiB"): 57.5,
        ("10", "rapt privatize: time, s"): 3.2,
    }
    assert not any(row.mean for row in found(whole)["rapt-table-10"].rows)


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
        # Of these two presets have a backbone each.
        assert not others or name in ("rapt-table-2", "qu-table-4", "qu-table-5")


def test_the_categories_are_a_setting_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = found(planned("attacks-categories", tmp_path, monkeypatch))["rapt-figures-6-8-10"].rows
    assert len({row.factors["setting"] for row in rows}) == 10


def planned(preset: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A preset of which nothing has run."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    Path("params.yaml").write_text(presets.text(preset), encoding="utf-8")
    return params.load()


def test_figure_9_has_every_layer_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    p = synthetic.write(tmp_path, synthetic.compare_layers)
    name = "movies-minilm-lora-rapt-75"
    Path(f"reports/statistics/layers/{name}.json").unlink()
    rows = found(p)["rapt-figure-9"].rows
    assert [row.command for row in rows if row.missing] == [f"dvc repro layers@{name}"]
    own = [row for row in rows if not row.missing]
    assert len(own) == 7 * 2
    last = [row for row in own if row.factors["layer"] == "6"]
    assert [row.factors["measure"] for row in last] == ["from clean", "between texts"]
    assert last[0].mean == pytest.approx(0.5 * 7.05)
    assert (last[0].n, last[0].factors["method"], last[0].factors["eta"]) == (2, "t2t", "75")


def test_a_figure_says_that_nothing_is_printed_and_shows_ours_or_what_runs_it(
    whole: Params,
) -> None:
    figures = {name: table for name, table in found(whole).items() if "figure" in name}
    shown = {"rapt": set(range(4, 11)), "qu": {3, 4}}
    for paper, numbers in shown.items():
        names = " ".join(name for name in figures if name.startswith(paper))
        assert {int(n) for n in re.findall(r"\d+", names)} == numbers
    for table in figures.values():
        assert table.note and table.note.endswith(UNPRINTED)
        assert table.rows
        for row in table.rows:
            assert row.published is None
            assert row.mean is not None or row.command


def test_models_and_tuners_are_named_as_the_papers_do(whole: Params) -> None:
    assert model_name("google-bert/bert-base-uncased@" + "0" * 40) == "bert-base-uncased"
    assert model_name("meta-llama/Meta-Llama-3-8B@" + "0" * 40) == "llama3-8b"
    assert tuner_name(whole, "lora") == "lora"
    assert backbone_name(whole, "bilstm") == "bilstm"


def test_csv_has_every_row_in_its_unit(whole: Params) -> None:
    for table in found(whole).values():
        rows = list(csv.DictReader(to_csv(table).splitlines()))
        assert len(rows) == len(table.rows)
        assert {row["unit"] for row in rows} <= {table.unit}
