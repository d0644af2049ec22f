"""The audit at the command line, and the verdicts of the documentation."""

import json
import re
from collections.abc import Callable, Iterator
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


def test_the_command_prints_and_writes_its_verdicts(run: Callable, tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    options = ["--draws", "2000", "--seed", "0", "--json", str(out)]
    code, printed = run("audit", "--mechanism", "santext", "--mechanism", "custext", *options)
    assert code == 0
    assert "1 - 1e-06" in printed
    content = json.loads(out.read_text())
    assert content["false_alarm"] == 1e-6
    verdicts = {v["mechanism"]: v for v in content["verdicts"]}
    assert verdicts["santext"]["verdict"] == "holds"
    assert verdicts["custext"]["verdict"].startswith("refuted")
    assert any(f["bound"] is None for f in verdicts["custext"]["findings"])
    assert all(f["loss"] <= f["bound"] for f in verdicts["santext"]["findings"])


def test_the_command_fails_on_a_violation(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, "t2t", WithoutTheWord)
    code, printed = run("audit", "--mechanism", "t2t", "--draws", "2000", "--seed", "0")
    assert code == 1
    assert "VIOLATED" in printed
    shown = " ".join(printed.split())
    line = r"got P\[\w.*\] at least exp\(.*\) times as likely, expected at most exp\("
    assert re.search(line, shown)


def test_the_command_audits_chosen_words_of_a_table(run: Callable, table) -> None:
    options = ["--table", str(table.folder), "--draws", "500", "--eta", "1", "--seed", "0"]
    pair = ["--pairs", "nouna:nounb"]
    code, printed = run("audit", "--mechanism", "t2t", *pair, *options)
    assert code == 0
    assert "nouna" in printed and "verba" not in printed
    code, printed = run("audit", "--mechanism", "pct2t", "--full", *pair, *options)
    assert code == 0
    assert "holds" in printed
    verbs = ["--pairs", "verba:verbb"]
    code, printed = run("audit", "--mechanism", "pct2t", "--full", *verbs, *options)
    assert "not tested: pairs: got none within the category" in printed


def test_all_mechanisms_are_listed_with_their_parameters(run: Callable) -> None:
    code, printed = run("mechanisms")
    assert code == 0
    sections = {part.split()[0]: part for part in re.split(r"\n\s*\n", printed) if part.strip()}
    for name, kind in MECHANISMS.items():
        assert name in printed
        assert kind.source in printed
        claim, shown = kind.claim, " ".join(sections[name].split())
        assert ("no guarantee" in shown) == (not claim.proof)
        assert all(place in shown for place in claim.places)
        assert (claim.caveat or "") in shown
    assert "beta = 0.001" in printed
    assert "probability of a word beyond the truncation" in printed


def documented() -> Iterator[tuple[str, str]]:
    text = (ROOT / "evidence/audit.md").read_text()
    section = text.split("## What the audit finds")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
            yield cells[0], cells[-1]


def test_the_documented_verdicts_are_those_of_every_mechanism() -> None:
    found = dict(documented())
    assert list(found) == list(MECHANISMS)
    for name, text in found.items():
        expected = "refuted" if mechanism(name).claim.published else "holds"
        assert text.startswith(expected)
