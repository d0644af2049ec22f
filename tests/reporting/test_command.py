"""`rapt report`: copies of the page, and where the results say they come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from rapt import params, paths, presets
from rapt.cli import app
from rapt.grid import CLEAN, LOCAL, plan
from rapt.params import Params
from rapt.reporting.command import narrowed, report
from rapt.utils.errors import RaptError
from tests.conftest import ROOT


def test_a_copy_without_choice_or_stamp_is_the_page(whole: Params, tmp_path: Path) -> None:
    report(tmp_path / "new" / "copy.html")
    assert (tmp_path / "new" / "copy.html").read_bytes() == paths.REPORT.read_bytes()


def test_a_copy_of_some_cells_has_no_others(whole: Params, tmp_path: Path) -> None:
    report(tmp_path / "copy.html", cells=["infer/*-50"])
    html = (tmp_path / "copy.html").read_text()
    assert "mlp on tweets: author" in html
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
        baselines = CLEAN, LOCAL
        others = [c for c in alone if c not in adapters and c.factors["method"] not in baselines]
        assert cell in alone and others == [cell] * (cell.factors["method"] not in baselines)
        assert len([c for c in adapters if c.factors["method"] != CLEAN]) <= 1
        assert plan(narrowed(p, [str(cell.path)])) == alone
    assert plan(narrowed(p, ["*"])) == plan(p)


def test_several_cells_bring_what_their_tables_need(whole: Params) -> None:
    chosen = ["train/movies-minilm-lora-t2t-50", "train/movies-minilm-lora-rapt-75"]
    assert [cell.cell for cell in plan(narrowed(whole, chosen))] == [
        "movies-minilm-lora-clean",
        *(f"movies-minilm-lora-{m}-{eta}" for m in ("t2t", "rapt") for eta in ("50", "75")),
        "movies",  # nothing sent
    ]


def test_what_is_no_cell_and_what_is_dvcs_is_refused(whole: Params, tmp_path: Path) -> None:
    with pytest.raises(RaptError, match=r"got 'trian/\*', expected KIND/CELL, .*\. Did you mean"):
        report(tmp_path / "copy.html", cells=["trian/*"])
    with pytest.raises(
        RaptError, match=r"copy.html: got a path in reports, expected one outside it"
    ):
        report(Path("reports/copy.html"))
    assert not list(tmp_path.iterdir())


def test_the_command_says_where_the_copy_lies(whole: Params, tmp_path: Path) -> None:
    copy = tmp_path / "copy.html"
    done = CliRunner().invoke(app, ["report", str(copy), "--cells", "study/*", "--stamp"])
    assert done.exit_code == 0 and done.stdout == f"{copy}\n"
    assert 'id="stamp"' in copy.read_text()
