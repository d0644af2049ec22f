"""The audit at the command line, and the verdicts of the documentation."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rapt.cli import app
from rapt.privacy.mechanisms import MECHANISMS, T2T, Sampler, Space, mechanism
from tests.conftest import ROOT


class WithoutTheWord(T2T):
    """Never the word itself, as Vickrey is often coded."""

    claim = T2T.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        search = space.search()

        def release(vectors, draws):
            own, near = search(vectors), search.nearest(vectors + draws / eta, 2)
            return np.where(near[:, 0] == own, near[:, 1], near[:, 0])

        return release


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, args)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.exit_code, done.output

    return run


def test_the_command_prints_its_power_and_writes_its_verdicts(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "audit.json"
    options = ["--draws", "20000", "--seed", "0", "--json", str(out)]
    code, printed = run("audit", "--mechanism", "santext", "--mechanism", "custext", *options)
    assert code == 0
    assert "below 1e-06" in printed and "99% power" in printed
    assert "\u2026" not in printed  # nothing is cut
    assert max(map(len, printed.splitlines())) <= 80
    content = json.loads(out.read_text())
    assert content["false_alarm"] == 1e-6
    verdicts = {v["name"]: v for v in content["verdicts"]}
    assert list(verdicts) == ["santext", "custext"]
    assert verdicts["santext"]["verdict"] == "holds"
    assert verdicts["custext"]["verdict"] == "paper's claim refuted"
    assert any(f["bound"] is None for f in verdicts["custext"]["findings"])
    assert all(f["loss"] <= f["bound"] for f in verdicts["santext"]["findings"])
    row = next(line for line in printed.splitlines() if "santext" in line).split()
    for cell, power in zip(row[3:5], ("white_box", "black_box"), strict=True):
        assert verdicts["santext"][power] <= float(cell) < verdicts["santext"][power] + 0.0011


@pytest.mark.slow
def test_the_command_fails_on_a_violation(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, "t2t", WithoutTheWord)
    code, printed = run("audit", "--mechanism", "t2t", "--draws", "4000", "--seed", "0")
    assert code == 1
    assert "VIOLATED" in printed
    shown = " ".join(printed.split())
    assert re.search(r"got P\[\w.*\] at least exp\(.*\) times as likely, expected at most", shown)
    assert re.search(r"t2t: noise in \d+ dimensions: .*: got p = 0, expected .* or more", shown)


@pytest.mark.slow
def test_the_command_audits_the_dimension_of_a_table(run: Callable, table, tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    options = ["--table", str(table.folder), "--draws", "500", "--json", str(out)]
    code, _ = run("audit", "--mechanism", "pct2t", *options)
    assert code == 0
    (found,) = json.loads(out.read_text())["verdicts"]
    assert any(f"in {table.dimension} dimensions" in check["what"] for check in found["checks"])


def test_all_mechanisms_are_listed_with_their_parameters(run: Callable) -> None:
    code, listed = run("mechanisms")
    assert code == 0
    sections = {part.split()[0]: part for part in re.split(r"\n\s*\n", listed) if part.strip()}
    for name, kind in MECHANISMS.items():
        assert name in listed
        claim, shown = kind.claim, " ".join(sections[name].split())
        assert kind.source in shown  # however long lines are
        assert ("no guarantee" in shown) == (not claim.proof)
        assert all(place in shown for place in claim.places)
        assert (claim.caveat or "") in shown
    code, printed = run("mechanisms", "--json")
    told = {each["name"]: each for each in json.loads(printed)}
    assert told.keys() == MECHANISMS.keys()
    for name, kind in MECHANISMS.items():
        assert (told[name]["law"] is None) == (not kind.claim.proof)
        assert told[name]["parameters"].keys() == {field.name for field in fields(kind)}
    assert "beta = 0.001" in listed
    assert "probability of a word beyond the truncation" in listed


def documented() -> Iterator[tuple[str, str]]:
    text = (ROOT / "evidence/audit.md").read_text()
    section = text.split("## What the audit finds")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
            yield cells[0], cells[-1]


def test_the_documented_verdicts_are_those_of_every_mechanism() -> None:
    found = dict(documented())
    ways = [name for name in found if name not in MECHANISMS]
    assert list(found) == [*MECHANISMS, *ways]
    assert [found.pop(name) for name in ways] == ["holds"] * 6
    for name, text in found.items():
        assert text == ("paper's claim refuted" if mechanism(name).claim.published else "holds")
