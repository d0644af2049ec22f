"""The examples of docs/privatize.md, as they stand there."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rapt.text.table import EmbeddingTable
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "privatize.md").read_text()
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workspace(minilm: EmbeddingTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the real table, and rapt as if it were installed there."""
    folder = tmp_path_factory.mktemp("workspace")
    shutil.copytree(minilm.folder, folder / "models" / "tables" / "minilm")
    (folder / "params.yaml").write_text((ROOT / "params.yaml").read_text())

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = folder / "site" / "rapt-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: rapt\nVersion: 0\n")
    points = (f"{k} = {v}" for k, v in project["entry-points"]["spacy_factories"].items())
    (installed / "entry_points.txt").write_text("[spacy_factories]\n" + "\n".join(points) + "\n")
    command = folder / "bin" / "rapt"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom rapt.cli import main\nmain()\n")
    command.chmod(0o755)
    return folder


def run(workspace: Path, kind: str, code: str) -> str:
    environment = os.environ | {
        "PYTHONPATH": f"{workspace / 'site'}:{ROOT}",
        "PATH": f"{workspace / 'bin'}:{os.environ['PATH']}",
        "HF_HOME": str(workspace / "hub"),
    }
    program = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}[kind]
    done = subprocess.run(
        [*program, code],
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_three_examples() -> None:
    assert [kind for kind, _ in BLOCKS] == ["sh", "python", "python"]


def test_the_command_line(workspace: Path) -> None:
    said = run(workspace, *BLOCKS[0])
    header, first, second = said.splitlines()[:3]
    assert header == "review,stars"
    assert "<name>" in first
    assert first.endswith(",5")
    assert "Alice" not in first  # released in the table's spelling, if at all
    assert second.endswith(",2")
    assert "bob@example.org" not in said
    assert "PRIVACY STATEMENT" in said


def test_spacy(workspace: Path) -> None:
    said = run(workspace, *BLOCKS[1]).splitlines()
    assert said[0].startswith("Alice moved to Paris. → ")
    assert said[2].startswith("Bob stayed at home. → ")
    assert "('.', '.')" in said[1]


def test_datasets(workspace: Path) -> None:
    pytest.importorskip("datasets", reason="needs rapt[hub]")
    said = run(workspace, *BLOCKS[2])
    assert said.count(" .'") == 3
