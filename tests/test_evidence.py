"""The committed evidence is what its cells say."""

import csv
import json
import re
import subprocess
import sys
from collections import Counter
from itertools import product
from math import ceil, floor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ruamel.yaml import YAML

from evidence import fail_safe, tables
from rapt import cli, defaults, params
from rapt.results.table import read_cells
from tests.conftest import ROOT

FOLDERS = [path.parent for path in sorted((ROOT / "evidence").glob("*/params.yaml"))]
EXPERIMENTS = [folder for folder in FOLDERS if (folder / "cells.csv").is_file()]


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_the_tables_are_those_of_the_cells(folder: Path) -> None:
    assert tables.page(folder) == (folder / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_every_cell_says_which_code_and_machine_made_it(folder: Path) -> None:
    with (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows and all(row["commit"] and float(row["seconds"]) for row in rows)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_experiment_begins_with_its_question_command_data_and_commit(folder: Path) -> None:
    params.load(folder / "params.yaml")
    head = (folder / "params.yaml").read_text(encoding="utf-8").partition("\n\n")[0]
    said = re.findall(r"^# (\w+): .", head, re.MULTILINE)
    assert said == ["Question", "Command", "Data", "Commit"]


def test_evidence_dvc_makes_the_tables_of_every_experiment() -> None:
    stages = YAML(typ="safe").load(ROOT / "evidence/dvc.yaml")["stages"]
    made = {name: stages[name]["matrix"]["experiment"] for name in ("tables", "paired")}
    paired = [e.name for e in EXPERIMENTS if (e / "answers.parquet").is_file()]
    assert sorted(made["paired"]) == paired
    assert sorted(made["tables"] + made["paired"]) == [e.name for e in EXPERIMENTS]


def _leaderboard(experiment: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The rows without the local model, and those with it."""
    with (ROOT / "evidence/leaderboard.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["experiment"] == experiment]
    alone, both = ([r for r in rows if r["with_local"] == str(local)] for local in (False, True))
    return alone, both


def _leads(rows: list[dict[str, str]], tuner: str, level: str) -> list[float]:
    """By how many points PCT2T is above each other mechanism of a list, which it surely leads."""
    first, *others = (r for r in rows if (r["tuner"], r["level"]) == (tuner, level))
    assert (first["method"], first["rank_low"], first["rank_high"]) == ("pct2t", "1", "1")
    assert all(int(row["rank_low"]) > 1 for row in others)
    return [100 * (float(first["accuracy"]) - float(row["accuracy"])) for row in others]


def test_the_leaderboard_s_page_counts_the_rows_of_its_table() -> None:
    alone, both = _leaderboard("leaderboard")
    of = [Counter(row["against_local"] for row in some) for some in (alone, both)]
    text = (ROOT / "evidence/leaderboard.md").read_text(encoding="utf-8")
    said = (
        f"Surely worse: {of[0]['worse']} of {len(alone)} rows without the local model. Surely "
        f"better: {of[1]['better']} of {len(both)} rows with it."
    )
    assert said in text and not of[0]["better"]
    leads = [x for tuner in ("tfidf", "linear-probe") for x in _leads(alone, tuner, "recovered-20")]
    assert f"{floor(min(leads))} to {ceil(max(leads))} points above all others" in text


def test_the_leaderboard_on_sst2_says_what_lora_changes() -> None:
    alone, both = _leaderboard("leaderboard-sst2")
    text = (ROOT / "evidence/leaderboard.md").read_text(encoding="utf-8")
    screens, levels = ("tfidf", "linear-probe"), ("recovered-35", "recovered-20")
    leads = [x for tuner, level in product(screens, levels) for x in _leads(alone, tuner, level)]
    assert f"{floor(min(leads))} to {ceil(max(leads))} points above all others. The other" in text
    assert not [row for row in alone if row["against_local"] == "better"]
    reviews = _leaderboard("leaderboard-lora")[1]
    rows = both + reviews
    (better,) = (row for row in rows if row["against_local"] == "better")
    (beside,) = (row for row in reviews if row["method"] == "pct2t")
    for row, said in ((better, "by {}"), (beside, "On film reviews it is {}")):
        assert (row["tuner"], row["method"], row["level"]) == ("lora", "pct2t", "recovered-50")
        over, low, high = (100 * float(row[f"over_local{end}"]) for end in ("", "_low", "_high"))
        points = f"{over:.1f} points" + " above" * (row is beside) + f" ({low:.1f} to {high:.1f})"
        assert said.format(points) in text
    assert (better["task"], beside["against_local"]) == ("sst2", "undecided")
    over, low, high = (100 * float(better[f"over_local{end}"]) for end in ("", "_low", "_high"))
    said = f"{over:.1f} points above sending nothing ({low:.1f} to {high:.1f})"
    assert said in (ROOT / "evidence/README.md").read_text(encoding="utf-8")
    assert f"No other of {len(rows)} rows with the local model is" in text


def test_the_page_of_questions_says_what_noise_costs() -> None:
    cells = read_cells(ROOT / "evidence/questions-reviews/cells.csv")
    accuracy = {
        cell.cell.removeprefix("reviews-smollm2-lora-"): 100 * cell.metrics["accuracy"].mean
        for cell in cells
        if cell.kind == "train"
    }
    least = accuracy["clean"] - max(accuracy["t2t-75"], accuracy["pct2t-75"])
    text = (ROOT / "evidence/questions.md").read_text(encoding="utf-8")
    assert f"both releases are {floor(least)} points or more below clean text" in text


def test_the_page_of_two_providers_says_which_rows_beat_sending_nothing() -> None:
    rows = json.loads((ROOT / "evidence/providers/results.json").read_text())["utility"]
    noisy = [row for row in rows if row["method"] != "clean"]
    alone, both = ([r for r in noisy if r["with_local"] is local] for local in (False, True))
    assert all(row["over_local_high"] < 0 for row in alone)
    (better,) = [row for row in both if row["over_local_low"] > 0]
    named = f"`{better['method']}` at `{better['eta']}`, film reviews, MPNet"
    assert (better["task"], better["backbone"]) == ("movies", "mpnet")
    text = (ROOT / "evidence/providers.md").read_text(encoding="utf-8")
    assert f"1 of {len(both)} rows is above it, just: {named}." in text


def test_on_the_front_is_what_nothing_matches_and_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"a": (0.2, 0.6), "b": (0.3, 0.6), "c": (0.4, 0.8), "d": (0.4, 0.7), "e": (0.9, 0.9)}
    cells_run: list[Any] = [
        SimpleNamespace(task="t", tuner="lora", label=eta, method="m", eta=eta, embedding="e")
        for eta in points
    ]
    strongest = {}
    for cell, (words, accuracy) in zip(cells_run, points.values(), strict=True):
        cell.accuracy = accuracy
        attack = SimpleNamespace(attack="bayes", attack_accuracy_all_words=words)
        strongest[tables._release(cell)] = attack
    strongest.pop(tables._release(cells_run.pop()))  # not attacked: not shown
    monkeypatch.setattr(tables, "_strongest", lambda results: strongest)
    rows = list(tables._front(cast(Any, None), cells_run))
    assert [(row[3], row[4], row[-1]) for row in rows] == [
        ("a", "20.0", "yes"),
        ("b", "30.0", ""),
        ("d", "40.0", ""),
        ("c", "40.0", "yes"),
    ]


def test_the_strongest_attack_is_one_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    release = {"task": "t", "method": "m", "eta": "75", "embedding": "e"}
    rows = [
        SimpleNamespace(kind=kind, counts=counts, attack_accuracy_all_words=words, **release)
        for kind, counts, words in [
            ("invert", True, 0.3),
            ("invert", True, 0.5),
            ("invert", True, 0.4),
            ("invert", False, 0.9),
            ("invert", True, None),
            ("membership", True, 0.8),
        ]
    ]
    monkeypatch.setattr(tables.tables, "privacy", lambda results: rows)
    assert tables._strongest(cast(Any, None)) == {("t", "m", "75", "e"): rows[1]}


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Run `rapt` where its imports are loaded: they take most of the time of an example."""

    def run(command: list[str], cwd: str, **_: Any) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["rapt", *command[3:]])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        return subprocess.CompletedProcess(command, int(ended.value.code or 0), *capfd.readouterr())

    defaults.project.cache_clear()
    monkeypatch.setattr(fail_safe, "subprocess", SimpleNamespace(run=run))


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.slow
@pytest.mark.parametrize("case", fail_safe.CASES, ids=lambda case: case.title)
def test_what_looked_protected_ends_as_the_page_says(case: fail_safe.Case) -> None:
    page = fail_safe.PAGE.read_text(encoding="utf-8")
    section = page.partition(f"## {case.title}\n")[2].partition("\n## ")[0]
    status, lines = fail_safe.tried(case)
    assert f"    exit status {status}\n" in f"{section}\n"
    assert f"    {lines[0][:40]}" in section
    assert f"    {lines[-1]}\n" in section
